package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/store"
	"github.com/iota-train/iota/edge/transport"
)

// sentinels are the errors that keep their meaning over the wire, as codes.
var sentinels = []struct {
	err  error
	code codes.Code
}{
	{store.ErrMissing, codes.NotFound},
	{store.ErrCorrupt, codes.DataLoss},
	{store.ErrFull, codes.ResourceExhausted},
	{transport.ErrDenied, codes.PermissionDenied},
}

// answer is what a peer is told of an error of the store. What is not a sentinel stays in the orchestrator's log: it
// may name its folders.
func (s *Server) answer(what string, err error) error {
	if err == nil {
		return nil
	}
	for _, v := range sentinels {
		if errors.Is(err, v.err) {
			return status.Errorf(v.code, "%s: %v", what, v.err)
		}
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if ctx := context.Cause(s.ctx); ctx != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.Errorf(codes.Unavailable, "%s: interrupted", what)
	}
	s.Log.Error(what, "err", err)
	return status.Errorf(codes.Internal, "%s: the orchestrator failed; its log says why", what)
}

// final reports whether trying a call again is of no use.
func final(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.DataLoss, codes.ResourceExhausted, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented:
		return true
	}
	return false
}

// explain makes an error of a call into one of this project.
func (c *Client) explain(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if wrong := c.wrongKey.Load(); wrong != nil {
		return fmt.Errorf("%w: %w", transport.ErrDenied, wrong)
	}
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("%s: %w", what, err)
	}
	for _, v := range sentinels {
		if s.Code() == v.code {
			return &said{text: s.Message(), err: v.err}
		}
	}
	text := strings.TrimPrefix(s.Message(), `connection error: desc = "transport: `)
	return fmt.Errorf("%s at %s: %s", what, c.address.Host, strings.TrimSuffix(text, `"`))
}

// said is an error as the orchestrator put it, with its meaning.
type said struct {
	text string
	err  error
}

func (e *said) Error() string { return e.text }
func (e *said) Unwrap() error { return e.err }
