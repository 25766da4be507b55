package cli

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// Output is the value of the flag --output.
type Output struct{ plain, value string }

// OutputFlag declares the flag --output of a command. plain is its default, and what is not JSON.
func OutputFlag(set *pflag.FlagSet, plain string) *Output {
	o := &Output{plain, plain}
	set.VarP(o, "output", "o", fmt.Sprintf("print it in this `FORMAT`: %s or json", plain))
	return o
}

// JSON tells whether the output is for scripts. Names in it never change.
func (o *Output) JSON() bool { return o.value == "json" }

// Set is pflag's.
func (o *Output) Set(value string) error {
	if value != o.plain && value != "json" {
		return fmt.Errorf("it is neither %s nor json", o.plain)
	}
	o.value = value
	return nil
}

func (o *Output) String() string { return o.value }

// Type is pflag's.
func (o *Output) Type() string { return "string" }

// choices are what a shell completes.
func (o *Output) choices() []string { return []string{o.plain, "json"} }

// PrintJSON prints a value for scripts.
func PrintJSON(value any) error {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
