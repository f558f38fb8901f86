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

func TestIotaKernelSelectsAVariant(t *testing.T) {
	for _, name := range Variants() {
		if got := variantNames[choose(name)]; got != name {
			t.Errorf("%s chose %s", name, got)
		}
	}
	if got := choose(""); got != runnable[0] {
		t.Errorf("no name chose %s", variantNames[got])
	}
	t.Setenv("IOTA_KERNEL", "abacus")
	if Check() == nil {
		t.Error("an unknown variant passed the check")
	}
}
