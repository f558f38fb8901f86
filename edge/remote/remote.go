// Package remote is a run reached over the network: gRPC over mutual TLS on ed25519 keys.
//
// A Server is the orchestrator's side: it gives a Hub its connections, and participants the store. A Client is a
// participant's side: it gives a Miner its connection and the store. What travels is described in docs/protocol.md.
//
// A key is all that the parties know of each other. The dialler names the orchestrator's key beforehand and accepts no
// other; the orchestrator learns the dialler's key from the handshake. Nothing that a peer does makes memory, goroutines
// or connections grow beyond Limits.
package remote

// Version is that of the service. Both sides must have the same.
const Version = 1
