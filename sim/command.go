package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// arguments are those of a command: key=value pairs and plain flags. The first mistake stays in err.
type arguments struct {
	values map[string]string
	used   []string
	err    error
}

// parseCommand splits a command into its name and arguments.
func parseCommand(command string) (string, *arguments, error) {
	fields := strings.Fields(command)
	if len(fields) == 0 {
		return "", nil, fmt.Errorf("an empty command")
	}
	a := &arguments{values: map[string]string{}}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		if _, ok := a.values[key]; ok {
			return "", nil, fmt.Errorf("%s: argument %s is given twice", fields[0], key)
		}
		a.values[key] = value
	}
	return fields[0], a, nil
}

func (a *arguments) text(key, usually string) string {
	a.used = append(a.used, key)
	if v, ok := a.values[key]; ok {
		return v
	}
	return usually
}

func (a *arguments) flag(key string) bool {
	a.used = append(a.used, key)
	v, ok := a.values[key]
	if ok && v != "" {
		a.note(key, "stands alone")
	}
	return ok
}

func (a *arguments) number(key string, usually int) int {
	n, err := strconv.Atoi(a.text(key, strconv.Itoa(usually)))
	if err != nil || n < 0 || n > math.MaxInt32 {
		a.note(key, fmt.Sprintf("is a whole number from 0 to %d", math.MaxInt32))
	}
	return n
}

func (a *arguments) float(key string, usually float64) float64 {
	x, err := strconv.ParseFloat(a.text(key, fmt.Sprint(usually)), 64)
	if err != nil || !(x >= 0 && x <= 1e9) {
		a.note(key, "is a number from 0")
	}
	return x
}

func (a *arguments) duration(key string, usually time.Duration) time.Duration {
	d, err := time.ParseDuration(a.text(key, usually.String()))
	if err != nil || d < 0 {
		a.note(key, "is a duration, as in 5s")
	}
	return d
}

func (a *arguments) note(key, what string) {
	if a.err == nil {
		a.err = fmt.Errorf("argument %s=%s %s", key, a.values[key], what)
	}
}

// unused returns an error that names an argument which nobody read.
func (a *arguments) unused() error {
	var list []string
	for key := range a.values {
		if !slices.Contains(a.used, key) {
			list = append(list, key)
		}
	}
	if len(list) == 0 {
		return a.err
	}
	slices.Sort(list)
	return fmt.Errorf("unknown argument %s", strings.Join(list, ", "))
}
