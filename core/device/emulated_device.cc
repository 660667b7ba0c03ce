#include "core/device/emulated_device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/device/done_event.h"
#include "core/device/op_run.h"
#include "core/ops/op_definition.h"

namespace weft {
namespace {

/// Longest host time between two ops that counts as dispatch; after more, the device was idle.
constexpr Nanoseconds kMaxDispatchGap = std::chrono::milliseconds(1);

/// Size from which memory is allocated by mmap, so that the kernel provides pages only on writing.
/// Memory that ops would fill then has no pages.
constexpr std::size_t kMmapThreshold = std::size_t{1} << 20;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Zeroes memory; returns whole pages to the kernel.
void make_zero(std::span<std::byte> memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = (begin + page_bytes() - 1) / page_bytes() * page_bytes();
  const std::uintptr_t last = (begin + memory.size()) / page_bytes() * page_bytes();
  const bool whole = memory.size() >= kMmapThreshold &&
                     madvise(memory.data() + (first - begin), last - first, MADV_DONTNEED) == 0;
  if (!whole) {
    std::memset(memory.data(), 0, memory.size());
    return;
  }
  std::memset(memory.data(), 0, first - begin);
  std::memset(memory.data() + (last - begin), 0, begin + memory.size() - last);
}

class EmulatedStream final : public Stream {
 public:
  EmulatedStream(const EmulatedDeviceOptions& options, WaitableClock& timer)
      : options_(options), timer_(timer) {}

  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode>) override {
    types_.clear();
    for (const ConstTensorRef& input : inputs) types_.push_back(input.type);
    check_types(op, types_, outputs);
    work(std::chrono::duration_cast<Nanoseconds>(
        std::chrono::duration<double>(emulated_seconds(options_, op, types_))));
  }
  void add(std::span<const float>, std::span<float>) override {}
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override {
    WEFT_CHECK(from.size() == to.size());
    std::memmove(to.data(), from.data(), from.size());
  }
  void fill_zero(std::span<std::byte> memory) override { make_zero(memory); }
  void adamw(const AdamW&, std::span<const AdamWParameter>) override {}
  void sums_of_squares(std::span<const std::span<const float>>,
                       std::span<double> results) override {
    std::ranges::fill(results, 0.0);
  }

  std::unique_ptr<Event> record() override { return std::make_unique<DoneEvent>(); }
  void wait(const Event& event) override { event.synchronize(); }
  void synchronize() override {}

 private:
  void work(Nanoseconds duration) {
    const TimePoint now = timer_.now();
    // If the previous sleep ended late, work that follows directly started at the sleep's intended
    // end.
    const bool at_once = now - woke_ <= kMaxDispatchGap;
    busy_until_ = std::max(at_once ? now - (woke_ - busy_until_) : now, busy_until_) + duration;
    if (busy_until_ > now) timer_.block_until(busy_until_);
    woke_ = std::max(timer_.now(), busy_until_);
  }

  const EmulatedDeviceOptions options_;
  WaitableClock& timer_;
  std::vector<TensorType> types_;
  TimePoint busy_until_{};
  /// End of the previous work as seen by the host: busy_until_, or later if the timer was late.
  TimePoint woke_{};
};

}  // namespace

double emulated_seconds(const EmulatedDeviceOptions& options, const Op& op,
                        std::span<const TensorType> inputs) {
  switch (op.kind) {
    case OpKind::kEmulatedBlock:
    case OpKind::kEmulatedInputGrad:
    case OpKind::kEmulatedWeightGrad: return op.real("seconds");
    default:
      return options.flops_per_second > 0
                 ? definition(op.kind).flops(op, inputs) / options.flops_per_second
                 : 0;
  }
}

EmulatedDevice::EmulatedDevice(const EmulatedDeviceOptions& options,
                               std::unique_ptr<WaitableClock> timer)
    : options_(options), timer_(std::move(timer)) {
  if (options.flops_per_second < 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "an emulated device cannot have {} operations a second; expected at least 0",
                options.flops_per_second);
  }
}

std::string EmulatedDevice::description() const {
  return options_.flops_per_second > 0
             ? fmt::format("emulated ({:.1f} TFLOP/s)", options_.flops_per_second * 1e-12)
             : "emulated";
}

DeviceMemory EmulatedDevice::allocate(std::size_t bytes) {
  void* data = nullptr;
  if (bytes >= kMmapThreshold) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (data == MAP_FAILED) data = nullptr;
  } else {
    data = std::aligned_alloc(64, std::max<std::size_t>((bytes + 63) / 64 * 64, 64));
  }
  if (data == nullptr) throw_out_of_memory(bytes, "an emulated device");
  return {*this, static_cast<std::byte*>(data), bytes};
}

void EmulatedDevice::release(std::byte* data, std::size_t size) noexcept {
  if (size >= kMmapThreshold) munmap(data, size);
  else std::free(data);
}

std::unique_ptr<Stream> EmulatedDevice::create_stream() {
  return std::make_unique<EmulatedStream>(options_, *timer_);
}

}  // namespace weft
