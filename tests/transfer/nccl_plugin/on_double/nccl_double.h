#pragma once

#include <nccl.h>

#include <string>
#include <vector>

/// NCCL as NVIDIA documents its non-blocking communicators, for one rank that meets nobody: it
/// keeps the order of calls and moves no data. What takes time takes two questions for the state. A
/// call on a communicator that is busy is refused, as NCCL does it.
namespace weft::test {

struct NcclDouble {
  /// "init", "broadcast", ... in order, and what no program may do: "wrong: ...".
  std::vector<std::string> calls;
  int communicators = 0;  ///< That were neither destroyed nor aborted.
  int open_groups = 0;
  ncclResult_t next_call = ncclSuccess;   ///< What the next operation in a group returns.
  ncclResult_t next_state = ncclSuccess;  ///< How what takes time next ends.

  bool did(const std::string& call) const;
};
extern NcclDouble nccl_double;

}  // namespace weft::test
