package data

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func tokenizer(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := NewTokenizer(name)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func sampleOf(t testing.TB, name string) *Dataset {
	t.Helper()
	d, err := Sample(tokenizer(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// letters returns a dataset of a number of letters.
func letters(t testing.TB, tokens int) *Dataset {
	t.Helper()
	text := make([]byte, tokens)
	for i := range text {
		text[i] = byte('a' + i%26)
	}
	d, err := FromTexts(tokenizer(t, Bytes), text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSampleIsTheSameEverywhere(t *testing.T) {
	want := map[string]struct {
		hash   string
		tokens int
		batch  []int32
	}{
		Bytes:   {"ae247525ea5182f2", 3_079_084, []int32{101, 32, 100, 101, 112, 116, 104, 32, 97}},
		R50kBPE: {"9c03ea6003394705", 589_564, []int32{287, 584, 9964, 1028, 262, 10040, 326, 389, 262}},
	}
	for _, name := range Tokenizers() {
		d := sampleOf(t, name)
		hash := d.Hash()
		row := make([]int32, 9)
		d.MicroBatch(7, 3, 1, 8, row)
		w := want[name]
		if hex.EncodeToString(hash[:8]) != w.hash || d.Tokens() != w.tokens || !slices.Equal(row, w.batch) {
			t.Errorf("%s: hash %x, %d tokens, micro-batch 3 of seed 7 %v", name, hash[:8], d.Tokens(), row)
		}
	}
}

func TestSampleGivesSixtyFourDistinctHeldOutMicroBatches(t *testing.T) {
	d := sampleOf(t, Bytes)
	const batch, seqLen = 4, 128
	if err := d.Check(batch, seqLen); err != nil {
		t.Fatal(err)
	}
	l := newLayout(d.Tokens(), seqLen+1)
	end := 0
	for j := range HeldOutBatches {
		for b := range batch {
			start := l.heldOutStart(j, b, batch)
			if start < end {
				t.Fatalf("row %d of micro-batch %d begins at %d, inside the row before it", b, j, start)
			}
			end = start + seqLen + 1
		}
	}
	first, again := make([]int32, batch*(seqLen+1)), make([]int32, batch*(seqLen+1))
	d.HeldOut(5, batch, seqLen, first)
	d.HeldOut(5+HeldOutBatches, batch, seqLen, again)
	if !slices.Equal(first, again) {
		t.Error("held-out micro-batch 5 changed")
	}
}

// The rows of a micro-batch and the held-out ones never share a token, and all lie inside the text, whatever its
// length and the shape of a micro-batch.
func TestTrainingNeverTouchesHeldOutText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.IntRange(1, 9).Draw(t, "batch")
		row := rapid.IntRange(2, 400).Draw(t, "row")
		least := max(batch, 2) * row
		tokens := least + rapid.OneOf(rapid.IntRange(0, 3*row), rapid.IntRange(0, 2_000_000)).Draw(t, "more")
		l := newLayout(tokens, row)
		heldOut := func(from, to int) bool { // any token of [from, to) is held out
			for g := range l.groups {
				_, held, end := l.group(g)
				if from < end && held < to {
					return true
				}
			}
			return false
		}
		starts := l.starts()
		if starts < 1 {
			t.Fatal("no place for a training row")
		}
		k := rapid.IntRange(0, starts-1).Draw(t, "k")
		for _, k := range []int{0, k, starts - 1} {
			at := l.start(k)
			if at < 0 || at+row > tokens || heldOut(at, at+row) {
				t.Fatalf("training row %d at %d of %d tokens, layout %+v", k, at, tokens, l)
			}
		}
		for j := range HeldOutBatches {
			for b := range batch {
				at := l.heldOutStart(j, b, batch)
				_, held, to := l.group(j * l.groups / HeldOutBatches)
				if at < held || at+row > to || to > tokens {
					t.Fatalf("held-out row at %d outside [%d, %d), layout %+v", at, held, to, l)
				}
			}
		}
	})
}

func TestEveryTrainingStartIsReachedOnce(t *testing.T) {
	l := newLayout(5000, 7)
	seen := map[int]bool{}
	for k := range l.starts() {
		seen[l.start(k)] = true
	}
	if len(seen) != l.starts() {
		t.Fatalf("%d starts, %d distinct", l.starts(), len(seen))
	}
}

func TestHeldOutTextIsASixteenthSpreadOverLongText(t *testing.T) {
	for _, tokens := range []int{200_000, 3_079_084, 1_000_000_007} {
		l := newLayout(tokens, 129)
		if l.groups != 64 || l.span != tokens/1024 {
			t.Errorf("%d tokens: %+v", tokens, l)
		}
		if other := newLayout(tokens, 33); other.groups != l.groups || other.span != l.span {
			t.Errorf("%d tokens: the row length moved the layout to %+v", tokens, other)
		}
	}
}

func TestMicroBatchDependsOnSeedAndNumberOnly(t *testing.T) {
	d := letters(t, 100_000)
	rapid.Check(t, func(t *rapid.T) {
		seed, i := rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "i")
		a, b, c, e := make([]int32, 4*33), make([]int32, 4*33), make([]int32, 4*33), make([]int32, 2*33)
		d.MicroBatch(seed, i, 4, 32, a)
		d.MicroBatch(seed, i+1, 4, 32, c)
		d.MicroBatch(seed, i, 4, 32, b)
		d.MicroBatch(seed, i, 2, 32, e)
		if !slices.Equal(a, b) || !slices.Equal(a[:len(e)], e) {
			t.Fatal("the same micro-batch differs")
		}
		if slices.Equal(a, c) {
			t.Fatal("two micro-batches are equal")
		}
	})
}

func TestMicroBatchesCoverTheTextEvenly(t *testing.T) {
	d := letters(t, 64_000)
	l := newLayout(d.Tokens(), 17)
	counts := make([]int, 8)
	for i := range uint64(4000) {
		r := newDraw(1, i)
		counts[l.start(r.below(l.starts()))*len(counts)/d.Tokens()]++
	}
	for k, n := range counts {
		if n < 400 || n > 600 {
			t.Errorf("eighth %d of the text began %d of 4000 rows", k, n)
		}
	}
}

func TestRowsAreTextWithTheNextTokenAsTarget(t *testing.T) {
	for _, name := range Tokenizers() {
		d := sampleOf(t, name)
		row := make([]int32, 2*65)
		d.MicroBatch(0, 0, 2, 64, row)
		text, err := d.Tokenizer().Decode(row[65:])
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := d.Tokenizer().Decode(tokensOf(d, 0, d.Tokens()))
		if !bytes.Contains([]byte(whole), []byte(text)) {
			t.Errorf("%s: row %q is not in the text", name, text)
		}
	}
}

func tokensOf(d *Dataset, from, to int) []int32 {
	tokens := make([]int32, to-from)
	d.copy(tokens, from)
	return tokens
}

func TestHashNamesTokenizerAndTexts(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, name := range Tokenizers() {
		for _, texts := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"c", "ab"}, {"ab", "c", ""}} {
			parts := make([][]byte, len(texts))
			for i := range texts {
				parts[i] = []byte(texts[i])
			}
			d, err := FromTexts(tokenizer(t, name), parts...)
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprint(name, texts)
			if other, taken := seen[d.Hash()]; taken {
				t.Errorf("%s and %s have the same hash", other, what)
			}
			seen[d.Hash()] = what
		}
	}
}

func TestTextsAreSeparated(t *testing.T) {
	for name, want := range map[string]string{Bytes: "one\n\ntwo", R50kBPE: "one<|endoftext|>two"} {
		d, err := FromTexts(tokenizer(t, name), []byte("one"), []byte("two"))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := d.Tokenizer().Decode(tokensOf(d, 0, d.Tokens())); err != nil || text != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestCheckRefusesTextShorterThanOneMicroBatch(t *testing.T) {
	const maxInt = int(^uint(0) >> 1)
	for _, c := range []struct {
		tokens, batch, seqLen int
		ok                    bool
	}{
		{516, 4, 128, true}, {515, 4, 128, false}, {258, 1, 128, true}, {257, 1, 128, false}, {516, 0, 128, false},
		{516, 4, 0, false}, {516, 4, -1, false}, {516, 1, maxInt, false}, {516, maxInt, 1, false},
		{0, 1, 1, false}, {4, 1, 1, true},
	} {
		d := letters(t, c.tokens)
		if err := d.Check(c.batch, c.seqLen); (err == nil) != c.ok {
			t.Errorf("%d tokens, %d x %d: %v", c.tokens, c.batch, c.seqLen, err)
		}
		if c.ok {
			d.MicroBatch(1, 2, c.batch, c.seqLen, make([]int32, c.batch*(c.seqLen+1)))
			d.HeldOut(63, c.batch, c.seqLen, make([]int32, c.batch*(c.seqLen+1)))
		}
	}
}

func TestMicroBatchAllocatesOnlyItsRandomSource(t *testing.T) {
	d, dst := letters(t, 100_000), make([]int32, 4*129)
	if n := testing.AllocsPerRun(100, func() { d.MicroBatch(1, 2, 4, 128, dst) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSample(b *testing.B) {
	for _, name := range Tokenizers() {
		tok := tokenizer(b, name)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Sample(tok); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
