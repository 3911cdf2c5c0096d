package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitGood   = 0
	exitFailed = 1 // damage was found, or something failed
	exitMisuse = 2
	exitSignal = 128 // and the number of a second signal
)

// errDamage ends a command that did its work and found damage, which it has printed.
var errDamage = errors.New("damage was found")

// misuse is an error of the caller.
type misuse struct{ error }

func main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		// A second one does not wait for anything. Nor is it left to its default action, which
		// process 1, that of a container, does not have.
		second := <-signals
		fmt.Fprintf(os.Stderr, "warmlog: ended at once by a second signal, %v\n", second)
		os.Exit(exitSignal + int(second.(syscall.Signal)))
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	if _, file := errOut.(*os.File); !file {
		errOut = &oneByOne{w: errOut}
	}
	w := bufio.NewWriterSize(out, 1<<16)
	app := &app{in: in, out: w, err: errOut, screen: terminal(out)}
	cmd := app.command()
	cmd.SetArgs(args)
	cmd.SetIn(in)
	cmd.SetOut(w)
	cmd.SetErr(errOut)
	err := cmd.ExecuteContext(ctx)
	if !errors.Is(err, errAbandoned) {
		if flushed := w.Flush(); err == nil {
			err = flushed
		}
	}
	var wrong misuse
	switch {
	case err == nil:
		return exitGood
	case errors.Is(err, errDamage):
		return exitFailed
	case errors.As(err, &wrong) || !app.started:
		// What cobra refuses before a command starts is misuse too.
		fmt.Fprintf(errOut, "warmlog: %v\n", err)
		fmt.Fprintln(errOut, "Run 'warmlog --help' for what there is.")
		return exitMisuse
	default:
		fmt.Fprintf(errOut, "warmlog: %v\n", err)
		return exitFailed
	}
}

// oneByOne is a writer that several goroutines may use.
type oneByOne struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneByOne) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(b)
}

// app is what the commands share.
type app struct {
	in      io.Reader
	out     *bufio.Writer
	err     io.Writer
	screen  *os.File // out, where it is a terminal
	json    bool
	started bool // a command has begun: errors are its own
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "warmlog",
		Short: "Look into a message store in RocketMQ's formats, or write one",
		Long: `warmlog opens a store that RocketMQ 4.9 to 5.5 or warmlog wrote: it shows messages, answers
pulls and queries as a broker would, and checks everything, without changing it. Only append
and repair write to a store; demo writes to one of its own.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print everything as JSON, one object a line")
	root.AddCommand(a.cat(), a.get(), a.find(), a.inspect(), a.verify(), a.residency(), a.append(), a.repair(), a.demo())
	return root
}

// begin marks that a command has begun, when arguments and flags were found right.
func (a *app) begin(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.started = true
		return run(cmd, args)
	}
}

// dirArg is the one argument of every command but demo.
var dirArg = cobra.ExactArgs(1)
