#pragma once

#include <string>
#include <vector>

namespace weft {

/// Raises the number of file descriptors that this process may have: the soft limit of
/// RLIMIT_NOFILE to the hard one. Strangers' connections to its ports take some. Call when the
/// process begins.
void raise_descriptor_limit();

/// "all 1024 file descriptors of this process are in use; ..." if no file can be opened, else
/// empty. For messages about what has just failed. Any thread.
std::string descriptor_shortage();

/// File descriptors that are kept for work which must not fail when strangers' connections have
/// taken all others. One thread at a time.
class DescriptorReserve final {
 public:
  /// Takes `count` descriptors, or as many as there are.
  explicit DescriptorReserve(int count) : count_(count) { take(); }
  DescriptorReserve(const DescriptorReserve&) = delete;
  DescriptorReserve& operator=(const DescriptorReserve&) = delete;
  ~DescriptorReserve() { release(); }

  /// Gives the descriptors free, for the work that begins now.
  void release();
  /// Takes them again.
  void take();
  int size() const { return static_cast<int>(kept_.size()); }

 private:
  const int count_;
  std::vector<int> kept_;
};

}  // namespace weft
