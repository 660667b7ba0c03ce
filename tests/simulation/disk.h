#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/world.h"

namespace weft::simulation {

/// Simulated disks for SQLite: files in memory. A power loss keeps synced data and a random,
/// possibly torn, part of later writes. Disks can be full.
class Disk final {
 public:
  explicit Disk(World& world);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// Sets whether the disks are full. Then files cannot be created or grow.
  void set_full(bool full) { full_ = full; }
  /// Injected bug: syncs succeed without effect.
  void lose_syncs() { loses_syncs_ = true; }
  bool loses_syncs() const { return loses_syncs_; }
  /// Loses unsynced writes of files whose path contains `part`.
  void lose_power(const std::string& part);
  /// Releases the locks of a process.
  void process_ended(ProcessNumber process);

  struct File {
    std::vector<char> bytes;   // content that processes read
    std::vector<char> synced;  // content after a power loss
    struct Write {
      std::size_t offset = 0;
      std::vector<char> bytes;
    };
    std::vector<Write> unsynced;
    std::map<const void*, std::pair<ProcessNumber, int>> locks;  // lock level, by handle
  };
  // Interface for SQLite's callbacks.
  World& world() { return world_; }
  bool full() const { return full_; }
  std::map<std::string, std::shared_ptr<File>>& files() { return files_; }

 private:
  World& world_;
  bool full_ = false;
  bool loses_syncs_ = false;
  std::map<std::string, std::shared_ptr<File>> files_;
};

}  // namespace weft::simulation
