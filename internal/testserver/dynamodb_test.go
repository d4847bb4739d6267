package testserver

import (
	"net"
	"testing"
)

// A client that gives up in the middle of a request ends no server.
func TestDynamoDBOutlivesARequestThatIsCutOff(t *testing.T) {
	t.Parallel()
	s := DynamoDB(t)
	for range 3 {
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\nContent-Length: 1000\r\n\r\n{")); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).SetLinger(0); err != nil { // a reset
			t.Fatal(err)
		}
		c.Close()
	}
	if err := s.ready(s.Addr); err != nil {
		t.Errorf("after three requests that were cut off: %v", err)
	}
}
