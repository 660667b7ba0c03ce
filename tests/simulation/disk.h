#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/world.h"

namespace weft::simulation {

/// The disks of a world, for SQLite: files in memory, of which a loss of power leaves what had been
/// synced and, of what was written since, what the seed wills, perhaps torn. They may be full.
class Disk final {
 public:
  explicit Disk(World& world);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// Nothing can be written beyond what files have.
  void set_full(bool full) { full_ = full; }
  /// A mistake on purpose: what is said to be synced is not.
  void lose_syncs() { loses_syncs_ = true; }
  bool loses_syncs() const { return loses_syncs_; }
  /// Of files whose path contains `part`.
  void lose_power(const std::string& part);
  /// What it had open is closed, and its locks are gone.
  void process_ended(ProcessNumber process);

  struct File {
    std::vector<char> bytes;   // as processes see it
    std::vector<char> synced;  // as a loss of power leaves it
    struct Write {
      std::size_t offset = 0;
      std::vector<char> bytes;
    };
    std::vector<Write> unsynced;
    std::map<const void*, std::pair<ProcessNumber, int>> locks;  // by handle: SQLite's level
  };
  // For SQLite's functions.
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
