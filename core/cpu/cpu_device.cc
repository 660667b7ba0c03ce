#include "core/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/cpu/cpu_kernels.h"
#include "core/device/done_event.h"

namespace weft {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

class CpuStream final : public Stream {
 public:
  CpuStream(InstructionSet instruction_set, int threads) : kernels_(instruction_set, threads) {}

  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes) override {
    kernels_.run(op, inputs, outputs, modes);
  }
  void add(std::span<const float> from, std::span<float> to) override { kernels_.add(from, to); }
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override {
    WEFT_CHECK(from.size() == to.size());
    std::memmove(to.data(), from.data(), from.size());
  }
  void fill_zero(std::span<std::byte> memory) override {
    std::memset(memory.data(), 0, memory.size());
  }
  void adamw(const AdamW& step, std::span<const AdamWParameter> parameters) override {
    for (const AdamWParameter& parameter : parameters) kernels_.adamw(step, parameter);
  }
  void sums_of_squares(std::span<const std::span<const float>> tensors,
                       std::span<double> results) override {
    WEFT_CHECK(tensors.size() == results.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      results[i] = kernels_.sum_of_squares(tensors[i]);
  }

  std::unique_ptr<Event> record() override { return std::make_unique<DoneEvent>(); }
  void wait(const Event& event) override { event.synchronize(); }
  void synchronize() override {}

 private:
  CpuKernels kernels_;
};

}  // namespace

CpuDevice::CpuDevice(const CpuDeviceOptions& options)
    : threads_(options.threads),
      instruction_set_(options.instruction_set.value_or(detect_instruction_set())) {
  if (threads_ < 1)
    throw_error(ErrorCode::kInvalidArgument, "a device needs at least 1 thread, not {}", threads_);
}

std::string CpuDevice::description() const {
  return fmt::format("cpu ({}, {} thread{})", to_string(instruction_set_), threads_,
                     threads_ == 1 ? "" : "s");
}

DeviceMemory CpuDevice::allocate(std::size_t bytes) {
  // Aligns large blocks to huge pages and requests huge pages, which reduces page faults and TLB
  // misses.
  const bool large = bytes >= 2 * kHugePage;
  const std::size_t alignment = large ? kHugePage : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, std::max(rounded, alignment));
  if (data == nullptr) throw_out_of_memory(bytes, "a device");
  if (large) madvise(data, rounded, MADV_HUGEPAGE);
  return {*this, static_cast<std::byte*>(data), bytes};
}

void CpuDevice::release(std::byte* data, std::size_t) noexcept { std::free(data); }

std::unique_ptr<Stream> CpuDevice::create_stream() {
  return std::make_unique<CpuStream>(instruction_set_, threads_);
}

}  // namespace weft
