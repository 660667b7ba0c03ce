#include "tests/bench/training_step/step_device.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "core/cuda_support/cuda_support.h"

namespace weft::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kRepeats = 8;

/// Returns the shortest time in seconds of `queue` with all of its work done. A GPU does it several
/// times in a row, so that a launch and a wake-up of the waiting thread count little.
double best_seconds(const Clock& clock, Device& device, Stream& stream, const auto& queue) {
  const int in_a_row = device.is_host_memory() ? 1 : 10;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    const TimePoint begin = clock.now();
    for (int run = 0; run < in_a_row; ++run) queue();
    stream.synchronize();
    best = std::min(best, std::chrono::duration<double>(clock.now() - begin).count());
  }
  return best / in_a_row;
}

}  // namespace

std::unique_ptr<Device> open_device(const StepDevice& device) {
  if (device.kind == "cpu") {
    return std::make_unique<CpuDevice>(
        CpuDeviceOptions{.threads = device.threads, .instruction_set = {}});
  }
  CudaDeviceOptions options;
  options.deterministic = device.deterministic;
  return make_cuda_device(options, plugin_search(plugin_places()));
}

void fill_random(Stream& stream, std::span<std::byte> memory, DType type) {
  PhiloxStream random(1);
  std::vector<std::uint64_t> words(std::min(memory.size(), kMiB) / sizeof(std::uint64_t) + 1);
  for (std::uint64_t& word : words) word = random();
  const auto block = std::as_writable_bytes(std::span(words)).first(std::min(memory.size(), kMiB));
  // The exponent's upper bits are fixed.
  for (std::size_t i = size_of(type) - 1; i < block.size(); i += size_of(type))
    block[i] = std::byte{0x3d};
  stream.copy(block, memory.first(block.size()));
  // Each copy doubles the filled part.
  for (std::size_t filled = block.size(); filled < memory.size();) {
    const std::size_t more = std::min(filled, memory.size() - filled);
    stream.copy(memory.first(more), memory.subspan(filled, more));
    filled += more;
  }
  stream.synchronize();
}

double matmul_rate(const Clock& clock, Device& device, DType precision) {
  const std::int64_t size = device.is_host_memory() ? 1024 : 8192;
  const TensorType type{precision, {size, size}};
  const DeviceMemory memory = device.allocate(3 * type.bytes());
  const auto at = [&](std::size_t i) { return memory.data() + i * type.bytes(); };
  const auto stream = device.create_stream();
  fill_random(*stream, {memory.data(), memory.size()}, precision);
  const Op linear{OpKind::kLinear, {}};
  const std::vector<ConstTensorRef> inputs{{type, at(0)}, {type, at(1)}};
  const std::vector<TensorRef> outputs{{type, at(2)}};
  const double seconds =
      best_seconds(clock, device, *stream, [&] { stream->run(linear, inputs, outputs); });
  return 2.0 * std::pow(static_cast<double>(size), 3) / seconds;
}

double copy_rate(const Clock& clock, Device& device) {
  const std::size_t size = device.is_host_memory() ? 2 * cache_bytes(device) : 2048 * kMiB;
  const DeviceMemory memory = device.allocate(2 * size);
  const auto stream = device.create_stream();
  fill_random(*stream, {memory.data(), memory.size()}, DType::kBF16);
  const double seconds = best_seconds(clock, device, *stream, [&] {
    stream->copy({memory.data(), size}, {memory.data() + size, size});
  });
  return 2.0 * static_cast<double>(size) / seconds;
}

std::size_t cache_bytes(const Device& device) {
  constexpr std::size_t kLargest = 128 * kMiB;
  if (!device.is_host_memory()) return kLargest;
  const long found = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return found <= 0 ? kLargest : std::clamp<std::size_t>(found, 8 * kMiB, kLargest);
}

}  // namespace weft::test
