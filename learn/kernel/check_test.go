package kernel

import "testing"

func TestCheckKnowsTheAnswersOfEveryVariant(t *testing.T) {
	eachVariant(t, func(name string) {
		for i, a := range answers {
			if got := answerHash(a.run, uint64(i)); got != a.want {
				t.Errorf("%s: %q, %#016x", name, a.name, got)
			}
		}
		if err := Check(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
}

func TestCheckFailsOnAWrongAnswer(t *testing.T) {
	was := answers[3].want
	defer func() { answers[3].want = was }()
	answers[3].want++
	if Check() == nil {
		t.Error("a wrong known answer passed")
	}
}
