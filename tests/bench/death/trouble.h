#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weft::test {

class RealProcesses;

/// A machine in a state that a run survives by itself, while blows fall on the run: a full disk, a
/// disk on which each fsync takes half a second, a link that is cut, a screen that nobody reads.
/// Ends with this object. One thread at a time.
class Trouble final {
 public:
  enum class Kind { kNone, kFullDisk, kSlowSync, kCutLink, kBlockedOutput };
  /// Throws std::runtime_error where this machine cannot have it (a full disk needs root).
  Trouble(Kind kind, const RealProcesses& processes);
  ~Trouble();
  Trouble(const Trouble&) = delete;
  Trouble& operator=(const Trouble&) = delete;

  Kind kind() const { return kind_; }
  /// Folder of the run's results.
  const std::filesystem::path& out() const { return out_; }
  /// Words in front of each command of the cluster: an environment.
  const std::vector<std::string>& before_commands() const { return before_commands_; }
  /// Words in front of `weft run`.
  const std::vector<std::string>& before_run() const { return before_run_; }

  /// Of a full disk: fills it, and makes room again.
  void begin();
  void end();
  /// True if a run may end with 1 and this text; it is to be resumed then.
  bool explains(const std::string& text) const;

 private:
  const Kind kind_;
  std::filesystem::path mount_, filler_, out_;
  std::vector<std::string> before_commands_, before_run_;
  int screen_ = -1;
};

/// "disk", "fsync", "cut", "stdout", "none". Throws std::runtime_error.
Trouble::Kind trouble_named(const std::string& name);

}  // namespace weft::test
