# Weft's own frames. The payload of a call is written by core/codec and is opaque here.
# Rules: ordinals are never reused, fields are only added, the default of a field means "absent".
@0xdc7a7c047f055ea8;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("weft::actors::wire");

struct Process {
  id @0 :UInt64;
  name @1 :Text;
  host @2 :Text;       # where it listens
  port @3 :UInt16;     # 0: it does not listen
  pid @4 :Int32;
  binaryName @5 :Text;
  binaryHash @6 :Text; # SHA-256 of the app's executable; empty: not an app
  interfaces @7 :List(InterfaceVersion); # not used any more: each handle and each call names its interface
  minor @8 :UInt8;     # of the protocol; both sides use the lower one
  nonce @9 :Data;      # 32 random bytes, of this connection
  tokenId @10 :UInt64; # which token it proves; 0: its cluster's
  hasAes @11 :Bool;    # its processor has AES instructions: where both have them, AES-256-GCM encrypts
  run @12 :UInt64;     # run that it belongs to; 0: none
}

struct InterfaceVersion {
  name @0 :Text;
  version @1 :UInt32;
  fingerprint @2 :UInt64;
}

# First frame of the side that dialled.
struct Hello {
  process @0 :Process;
  wanted @1 :UInt64;   # the process that is dialled; 0: any
  wantsHead @2 :Bool;  # only a head
}

# The answer to Hello: this, and a proof (32 bytes without a schema) that its sender knows the cluster's token; or Reject. After the
# dialler's own proof an empty Welcome, or Reject; from there on all is encrypted (actors/net/encrypted_stream.h), where TLS does not do so.
struct Challenge {
  process @0 :Process;
}
struct Reject {
  code @0 :UInt16;     # an ErrorCode
  text @1 :Text;
  hint @2 :Text;
  duplicate @3 :Bool;  # the other process is dialling too, and its connection is the one to keep
  processId @4 :UInt64; # who refuses
}

struct Call {
  id @0 :UInt64;          # 0: one way
  actor @1 :UInt64;
  interface @2 :UInt64;   # fingerprint
  method @3 :UInt32;      # index into the interface's list
  urgent @4 :Bool;
  remainingNs @5 :Int64;  # until the caller's deadline; 0: none
  arguments @6 :Data;
  order @7 :Order;        # absent: this connection alone carries calls of its sender to the actor
}

# Place among the calls that come directly and over relays; see CallOrder.
struct Order {
  stream @0 :UInt64;
  number @1 :UInt64;
  kind @2 :UInt8;
}

struct Reply {
  id @0 :UInt64;
  union {
    value @1 :Data;
    error @2 :Error;
  }
  state @3 :UInt8; # see ReplyState
}

struct Error {
  code @0 :UInt16;
  message @1 :Text;
  where @2 :Text;
  node @3 :Text;
  actor @4 :Text;
}

# What an actor has taken from its mailbox since this connection began, and how much may wait in it.
struct Credit {
  actor @0 :UInt64;
  consumedMessages @1 :UInt64;
  consumedBytes @2 :UInt64;
  windowMessages @3 :UInt32;
  windowBytes @4 :UInt64;
  request @5 :Bool;        # the other way: the sender holds calls back and asks for a report
}

struct Cancel {
  id @0 :UInt64;
}

# Some values of a generator, in order, before the reply that ends its call. From minor version 1.
struct Values {
  id @0 :UInt64;           # of the call
  values @1 :List(Data);
}

# What the reader of a generator has taken of its values since the call began. From minor version 1.
struct Pull {
  id @0 :UInt64;           # of the call
  actor @1 :UInt64;
  consumedValues @2 :UInt64;
  consumedBytes @3 :UInt64;
}

struct Goodbye {
  reason @0 :Text;
  connectionOnly @1 :Bool;  # only the connection ends: the sender goes on, and may connect again
}
