#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "actors/call/combine.h"
#include "actors/call/partial_results.h"
#include "actors/call/pending.h"

namespace weft::actors {

/// Group of calls whose results are combined into one. The first error fails it, and cancels the
/// other calls.
///
/// The order of combination depends on the ranks only: neighbours first, then pairs of neighbours.
/// So the sum of floating-point numbers has the same bits in each run, and a process that combines
/// an aligned part of 2^n ranks does not change it.
///
///   rank 0  1  2  3  4        ((0 1) (2 3)) 4
///         \/    \/   |
///           \  /     |
///             └──────┘
///
/// Results of numbers are combined as they arrive, on the threads that complete the calls. Relays
/// have combined some already. Listed functions are user code: they run in take(). Any thread.
class CallReduction final : public Pending {
 public:
  static std::shared_ptr<CallReduction> make(std::vector<std::shared_ptr<CallState>> parts,
                                             ReduceOperation operation, CombineResults combine);
  void cancel() override;
  CallProgress progress() const override { return progress_of(parts_); }
  /// Returns the combined result, encoded, or throws the error. Once, after done.
  std::vector<std::byte> take();
  std::size_t size() const { return parts_.size(); }
  DecodeContext* decode_context() const { return parts_.front()->decode_context; }

 private:
  CallReduction(std::vector<std::shared_ptr<CallState>> parts, ReduceOperation operation,
                CombineResults combine);
  void part_done(std::size_t rank);
  void fail(const Error& error);
  /// Adds the result of a rank, or of several whose first it is.
  void add(std::size_t rank);
  void combine_parts(PartialResult& left, const PartialResult& right) const;

  const std::vector<std::shared_ptr<CallState>> parts_;
  const ReduceOperation operation_;
  const CombineResults combine_;
  std::atomic<std::size_t> left_;
  std::optional<Error> error_;
  PartialResults partial_;
};

}  // namespace weft::actors
