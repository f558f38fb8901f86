package orchestrator

import (
	"slices"
)

// Holds reports whether the run may still need the blob of that hash: it has not been released. What is stored and not
// held is named by nothing, and may be deleted once nobody can be about to name it.
func (o *Orchestrator) Holds(hash []byte) bool {
	if o.stored(hash) {
		return true
	}
	is := func(r ref) bool { return string(r.Hash) == string(hash) }
	for _, s := range o.Stages {
		for _, c := range []*ref{s.Checkpoint, s.Previous, s.Agreed} {
			if c != nil && is(*c) {
				return true
			}
		}
	}
	for _, b := range o.manifest.GetData().GetBlobs() {
		if is(newRef(b)) {
			return true
		}
	}
	return slices.ContainsFunc(o.Audits, func(a *audit) bool { return slices.ContainsFunc(a.reads(), is) })
}
