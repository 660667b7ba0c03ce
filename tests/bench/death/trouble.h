#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weft::test {

class RealProcesses;

/// Trouble of the machine that a run should survive while blows hit the run: a full disk, an fsync
/// that takes half a second, a link that is cut, an output that is not read. The destructor ends
/// the trouble. One thread at a time.
class Trouble final {
 public:
  enum class Kind { kNone, kFullDisk, kSlowSync, kCutLink, kBlockedOutput };
  /// Throws std::runtime_error if this machine cannot have the trouble (a full disk needs root).
  Trouble(Kind kind, const RealProcesses& processes);
  ~Trouble();
  Trouble(const Trouble&) = delete;
  Trouble& operator=(const Trouble&) = delete;

  Kind kind() const { return kind_; }
  /// Folder of the run's results.
  const std::filesystem::path& out() const { return out_; }
  /// Prefix of each command of the cluster, which sets its environment.
  const std::vector<std::string>& before_commands() const { return before_commands_; }
  /// Prefix of `weft run`.
  const std::vector<std::string>& before_run() const { return before_run_; }

  /// Fills the disk, and empties it again. No effect for other kinds.
  void begin();
  void end();
  /// Returns true if the trouble can end a run with status 1 and this text. Resume the run then.
  bool explains(const std::string& text) const;

 private:
  const Kind kind_;
  std::filesystem::path mount_, filler_, out_;
  std::vector<std::string> before_commands_, before_run_;
  int screen_ = -1;
};

/// Returns the trouble named "disk", "fsync", "cut", "stdout" or "none". Throws std::runtime_error.
Trouble::Kind trouble_named(const std::string& name);

}  // namespace weft::test
