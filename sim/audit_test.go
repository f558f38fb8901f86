package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

var auditSeeds = flag.Int("auditseeds", 1, "how many seeds of each kind of cheating to run")

// audited9 is a network of nine miners in three stages with validators, 0.3 of whose work is to be replayed.
func audited9(t *testing.T, seed, validators int) (*Scenario, *Sim) {
	t.Helper()
	c := &Scenario{}
	t.Cleanup(c.Close)
	if _, err := c.Do(fmt.Sprintf("network stages=3 miners=9 seed=%d epochs=5 c=1 audit=0.3 validators=%d real", seed, validators)); err != nil {
		t.Fatal(err)
	}
	return c, c.Sim()
}

func TestEveryCheatFailsAnAuditWithinThreeEpochs(t *testing.T) {
	for i, kind := range []string{"free-rider", "zero", "scale", "sign-flip", "stale", "backward-noise", "bad-reduce"} {
		for seed := 1; seed <= *auditSeeds; seed++ {
			t.Run(fmt.Sprintf("%s/seed=%d", kind, seed), func(t *testing.T) {
				_, s := audited9(t, seed, 1)
				s.Run(func() bool { return s.now > 10*time.Millisecond }, time.Second)
				liar := 1 + i%9
				for s.hub.core.Miners[liar-1].Stage == 0 { // its gradients go nowhere
					liar = liar%9 + 1
				}
				if err := s.Machine(liar).Lie(kind, 1); err != nil {
					t.Fatal(err)
				}
				s.Run(func() bool { return s.hub.core.Miners[liar-1].Failed > 0 || s.Finished() }, time.Hour)
				if m := s.hub.core.Miners[liar-1]; m.Failed == 0 || s.hub.core.Epoch > 3 {
					t.Errorf("miner %d: %d failed verdicts in epoch %d", liar, m.Failed, s.hub.core.Epoch)
				}
				if err := s.Verify(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestACopiedShareFailsAnAuditOfTheLastSegment(t *testing.T) {
	for seed := 1; seed <= *auditSeeds; seed++ {
		c := &Scenario{}
		t.Cleanup(c.Close)
		if _, err := c.Do(fmt.Sprintf("network stages=3 miners=9 seed=%d epochs=6 c=1 audit=1 validators=6 real", seed)); err != nil {
			t.Fatal(err)
		}
		s := c.Sim()
		if err := s.Machine(1).Lie("copy", 1); err != nil {
			t.Fatal(err)
		}
		s.Run(s.Finished, time.Hour)
		if found := s.View().Evidence; len(found) != 1 || found[0].Miner != 1 || !strings.HasPrefix(found[0].What, "share of stage") {
			t.Errorf("seed %d: the evidence is %v: it is to be one share of miner 1", seed, found)
		}
		if err := s.Verify(); err != nil {
			t.Error(err)
		}
	}
}

func TestValidatorsThatDoNotComputeAreWithdrawnWithoutPay(t *testing.T) {
	for _, kind := range []string{"lazy", "lying"} {
		for validators := 1; validators <= 2; validators++ {
			t.Run(fmt.Sprintf("%s, one of %d", kind, validators), func(t *testing.T) {
				_, s := audited9(t, 1, validators)
				if err := s.Validator(1).Lie(kind, 1); err != nil {
					t.Fatal(err)
				}
				s.Run(s.Finished, time.Hour)
				v := s.View()
				if v.Validators[0].State != "barred" || v.Validators[0].Units != 0 {
					t.Errorf("validator 1 is %s with %v units", v.Validators[0].State, v.Validators[0].Units)
				}
				for _, m := range v.Miners {
					if m.Failed > 0 {
						t.Errorf("miner %d failed", m.Number)
					}
				}
				if err := s.Verify(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestValidatorsDoNotHoldUpTraining(t *testing.T) {
	end := func(validators string) time.Duration {
		var c Scenario
		defer c.Close()
		if _, err := c.Do("network stages=3 miners=6 seed=1 epochs=4 audit=1 " + validators); err != nil {
			t.Fatal(err)
		}
		s := c.Sim()
		if validators != "" {
			s.Validator(1).Slow(1000)
		}
		s.Run(func() bool { return s.hub.core.Epoch == 4 }, time.Hour)
		return s.now
	}
	alone, audited := end(""), end("validators=1")
	if audited > alone+alone/5 {
		t.Errorf("four epochs took %s, with a validator that is slow %s", alone, audited)
	}
}

func TestAPlantedAuditHasAnotherAnswerAndOtherJudgesThanItsTwin(t *testing.T) {
	var c Scenario
	t.Cleanup(c.Close)
	if _, err := c.Do("network stages=3 miners=9 seed=1 epochs=5 c=1 audit=1 validators=5 real"); err != nil {
		t.Fatal(err)
	}
	s, answers, judges, twins := c.Sim(), map[uint64]string{}, map[uint64]map[string]bool{}, map[uint64]uint64{}
	s.Run(func() bool {
		for _, a := range s.hub.core.Audits {
			if judges[a.Number] == nil {
				judges[a.Number] = map[string]bool{}
			}
			for _, l := range a.Leases {
				judges[a.Number][fmt.Sprint(l.Judge)] = true
			}
			if a.Twin > 0 {
				twins[a.Number] = a.Twin
			}
			for _, x := range a.Answers {
				answers[a.Number] = string(x.Digest)
			}
			if answers[a.Number] == "" && a.Miner >= 0 && !a.Planted { // an honest log has the right answer
				var all []byte
				for i, raw := range a.Parties[0].Receipts {
					r, err := (&message.Result{Receipt: raw}).Open()
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, message.HashBytes(message.Encode(a.Segment.Want(i, r)))...)
				}
				answers[a.Number] = string(message.HashBytes(all))
			}
		}
		return s.Finished()
	}, time.Hour)
	planted, same := 0, 0
	for copied, twin := range twins {
		for j := range judges[copied] {
			if judges[twin][j] {
				t.Errorf("judge %s was given audit %d and its altered copy %d", j, twin, copied)
			}
		}
		if answers[copied] == "" {
			continue
		}
		if answers[twin] == "" {
			t.Fatalf("audit %d was not seen", twin)
		}
		planted++
		if answers[copied] == answers[twin] {
			same++
		}
	}
	t.Logf("%d planted, %d answered, %d alike", len(twins), planted, same)
	if planted == 0 || same > 0 {
		t.Errorf("%d planted audits were answered, %d of them as if nothing was altered", planted, same)
	}
	for _, v := range s.View().Validators {
		if v.State == "barred" {
			t.Errorf("validator %d was withdrawn", v.Number)
		}
	}
}
