#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "actors/message/ids.h"
#include "core/codec/bytes.h"

namespace weft::actors {

class System;

/// Arguments of the calls that a MeshRef makes at once, while they are encoded. Finds the values
/// that every call carries, such as references to one large object, and announces their receivers
/// before the calls are sent: one transfer can then serve all.
///
/// The codec of such a value adds it. One thread at a time; borrows the system and the actors.
class MeshArguments final : public EncodeContext {
 public:
  using Actors = std::vector<std::shared_ptr<const ActorAddress>>;
  /// Id of a value; equal in all calls that carry it.
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  /// Announces a value to the processes that are to receive it. Must neither block nor throw.
  using Announce = std::function<void(System&, const std::vector<ProcessRef>&)>;

  MeshArguments(System& system, const Actors& actors) : system_(system), actors_(actors) {}

  /// Begins the arguments of the next call. Returns this context.
  EncodeContext* next() {
    ++calls_;
    return this;
  }
  /// Notes a value of the current call.
  void add(const Key& key, Announce announce);
  /// Announces the values that all calls carry, unless the actors share one process.
  void announce() const;

 private:
  struct Value {
    Announce announce;
    std::size_t calls = 0;
    std::size_t last_call = 0;
  };
  System& system_;
  const Actors& actors_;
  std::size_t calls_ = 0;
  std::map<Key, Value> values_;
};

}  // namespace weft::actors
