#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/call/task.h"
#include "actors/head/head_config.h"
#include "actors/head/owner_table.h"
#include "actors/head/state_store.h"
#include "actors/system/context.h"
#include "core/codec/codec.h"
#include "core/tensor/mesh_shape.h"

namespace weft::actors {

/// Actors whose lifetime is that of the cluster, and what it takes to spawn them again. Limits as
/// in SpawnOptions.
struct KeptActors {
  std::string name;
  InterfaceVersion interface;
  MeshShape shape;
  std::vector<std::byte> arguments;  ///< Encoded arguments of the constructor.
  std::uint8_t on_failure = 0;       ///< An OnFailure.
  std::uint64_t restarts = 0;
  std::int64_t within_ns = 0;
  std::vector<std::string> hosts;
  /// Executable of their processes on the hosts, their environment, and their limit of memory.
  std::string binary;
  std::string binary_sha256;
  std::vector<std::string> environment;
  std::uint64_t memory_cap = 0;
  static constexpr auto fields =
      weft::fields(&KeptActors::name, &KeptActors::interface, &KeptActors::shape,
                   &KeptActors::arguments, &KeptActors::on_failure, &KeptActors::restarts,
                   &KeptActors::within_ns, &KeptActors::hosts, &KeptActors::binary,
                   &KeptActors::binary_sha256, &KeptActors::environment, &KeptActors::memory_cap);
};

/// Record of the actors that the cluster keeps, for their owner: the keeper, a part of the head's
/// process. Survives the head. Owned by the head; its thread only.
class KeptActorsTable final {
 public:
  /// `start_keeper`: starts the keeper, unless that was done; does not block. May be empty.
  KeptActorsTable(Context& context, const OwnerTable& owners, StateStore& store,
                  std::function<void()> start_keeper)
      : context_(context), owners_(owners), store_(store), start_keeper_(std::move(start_keeper)) {}
  KeptActorsTable(const KeptActorsTable&) = delete;
  KeptActorsTable& operator=(const KeptActorsTable&) = delete;

  /// Starts the keeper if the saved state has kept actors.
  void resume();
  /// Returns the process of the keeper, and starts it if there is none. Throws Error(kUnavailable)
  /// if it does not come.
  task<ProcessRef> keeper();
  /// Records actors. Throws Error(kFailedPrecondition) unless the keeper calls; so do the others.
  void keep(ProcessId caller, const KeptActors& actors);
  /// Forgets actors of that name. Ignored unless the keeper calls.
  void forget(ProcessId caller, const std::string& name);
  /// Leaves out rows that cannot be read, with a warning in the log.
  std::vector<KeptActors> all(ProcessId caller) const;
  /// Returns whether actors of that name, "hits" or "cluster/hits", are recorded. Any caller.
  bool contains(const std::string& name) const;
  /// Has the keeper stop actors. Returns when they have ended and are forgotten. Throws
  /// Error(kUnavailable) if no keeper answers, and the keeper's errors. Any caller.
  task<void> stop(std::string name);

 private:
  void check_keeper(ProcessId caller) const;

  Context& context_;
  const OwnerTable& owners_;
  StateStore& store_;
  const std::function<void()> start_keeper_;
};

}  // namespace weft::actors
