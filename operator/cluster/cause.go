package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"
)

// cause says why a call failed, in words that are the same each time it fails
// for that reason: local ports and times of day would have every look write the
// status anew.
func cause(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "no answer in time"
	}
	// Which of these it is depends on who is quicker.
	for _, closed := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, closed) {
			return "it closed the connection without an answer"
		}
	}
	if expired, ok := errors.AsType[x509.CertificateInvalidError](err); ok && expired.Reason == x509.Expired && expired.Cert != nil {
		return fmt.Sprintf("its certificate is valid from %s until %s only",
			expired.Cert.NotBefore.UTC().Format(time.RFC3339), expired.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("looking up %s: %s", lookup.Name, lookup.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return operation(op)
	}
	if call, ok := errors.AsType[*url.Error](err); ok {
		return call.Err.Error()
	}
	return err.Error()
}

// operation leaves our own end out: its port is another each time.
func operation(op *net.OpError) string {
	err := op.Err
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	if op.Addr == nil {
		return fmt.Sprintf("%s: %v", op.Op, err)
	}
	return fmt.Sprintf("%s %s: %v", op.Op, op.Addr, err)
}

// untrusted says that something answered whose certificate does not stand the
// check.
func untrusted(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is
}
