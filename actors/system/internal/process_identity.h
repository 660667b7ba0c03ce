#pragma once

#include <mutex>
#include <string>

#include "actors/message/message.h"
#include "core/base/thread.h"

namespace weft::actors {

struct SystemOptions;

/// Description of this process that its peers receive. Its address changes until listen(). Any
/// thread.
class ProcessIdentity final {
 public:
  /// Chooses a random id for this process.
  explicit ProcessIdentity(const SystemOptions& options);

  ProcessId id() const { return id_; }
  const std::string& name() const { return name_; }
  PeerDescription introduction() const;
  ProcessRef process() const { return introduction().process; }

  void set_address(const Address& address);

 private:
  const ProcessId id_;
  const std::string name_;
  mutable Mutex mutex_;  // guards introduction_
  PeerDescription introduction_;
};

}  // namespace weft::actors
