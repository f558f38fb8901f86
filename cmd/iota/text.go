package main

import (
	"context"
	"fmt"

	"github.com/iota-train/iota/edge/remote"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/protocol/message"
)

// fetchText returns the text that a run trains on.
func fetchText(_ context.Context, _ *remote.Client, m *message.Manifest) (*data.Dataset, error) {
	tokenizer, err := data.NewTokenizer(m.GetData().GetTokenizer())
	if err != nil {
		return nil, fmt.Errorf("the run's tokenizer: %w", err)
	}
	return data.Sample(tokenizer)
}
