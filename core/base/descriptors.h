#pragma once

#include <string>
#include <vector>

namespace weft {

/// Raises the soft limit on file descriptors (RLIMIT_NOFILE) to the hard limit, because connections
/// from unknown peers to open ports use descriptors too. Call when the process starts.
void raise_descriptor_limit();

/// Returns "all 1024 file descriptors of this process are in use; ..." if no file can be opened,
/// else "". Meant for the message of a call that just failed. Thread-safe.
std::string descriptor_shortage();

/// File descriptors held in reserve for work that must succeed even if connections use up all other
/// descriptors. Not thread-safe.
class DescriptorReserve final {
 public:
  /// Reserves `count` descriptors, or as many as are available.
  explicit DescriptorReserve(int count) : count_(count) { take(); }
  DescriptorReserve(const DescriptorReserve&) = delete;
  DescriptorReserve& operator=(const DescriptorReserve&) = delete;
  ~DescriptorReserve() { release(); }

  /// Closes the reserved descriptors, so that the caller can use their numbers.
  void release();
  /// Reserves descriptors again, up to the count given at construction.
  void take();
  int size() const { return static_cast<int>(kept_.size()); }

 private:
  const int count_;
  std::vector<int> kept_;
};

}  // namespace weft
