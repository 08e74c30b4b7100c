// Command tool is the program that the tests run in containers.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(64)
	}
	switch os.Args[1] {
	case "exit":
		exit(os.Args[2:])
	case "serve":
		serve(os.Args[2:])
	case "sleep":
		time.Sleep(time.Hour)
	case "count":
		for i := 0; ; i++ {
			fmt.Println("line", i)
			time.Sleep(20 * time.Millisecond)
		}
	default:
		fmt.Fprintln(os.Stderr, "unknown command", os.Args[1])
		os.Exit(64)
	}
}

// exit prints its arguments and ends with a code; with -once-file it ends well when the file is there already.
func exit(args []string) {
	f := flag.NewFlagSet("exit", flag.ExitOnError)
	code := f.Int("code", 0, "")
	onceFile := f.String("once-file", "", "")
	_ = f.Parse(args)
	fmt.Println(strings.Join(f.Args(), " "))
	if *onceFile != "" {
		if _, err := os.Stat(*onceFile); err == nil {
			os.Exit(0)
		}
		if err := os.WriteFile(*onceFile, nil, 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(65)
		}
	}
	os.Exit(*code)
}

func serve(args []string) {
	f := flag.NewFlagSet("serve", flag.ExitOnError)
	listen := f.String("listen", "", "")
	ignoreTerm := f.Bool("ignore-term", false, "")
	child := f.Bool("child", false, "")
	_ = f.Parse(args)
	if *child {
		c := exec.Command(os.Args[0], "sleep")
		c.Env = os.Environ()
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // leaves the process group
		if err := c.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(65)
		}
	}
	go terminate(*ignoreTerm)
	fmt.Println("serving on", *listen)
	if err := http.ListenAndServe(*listen, routes(f.Args())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(66)
	}
}

func terminate(ignore bool) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	for range c {
		fmt.Println("asked to end")
		if !ignore {
			os.Exit(0)
		}
	}
}

func routes(args []string) http.Handler {
	var sick atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			http.Error(w, "sick", http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/sick", func(_ http.ResponseWriter, r *http.Request) { sick.Store(r.FormValue("to") == "true") })
	mux.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		os.Exit(code)
	})
	mux.HandleFunc("/env", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, os.Getenv(r.FormValue("name"))) })
	mux.HandleFunc("/environ", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Join(os.Environ(), "\n"))
	})
	mux.HandleFunc("/args", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Join(args, "\n")) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		data, err := os.ReadFile(r.FormValue("path"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
	})
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		if err := os.WriteFile(r.FormValue("path"), []byte(r.FormValue("data")), 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/pid", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, os.Getpid()) })
	return mux
}
