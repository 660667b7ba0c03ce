// Compares every op of a training step at the sizes of real models in bf16 with the same op in f32
// by Weft's own kernels on the same device, from equal numbers: the relative difference in the
// Frobenius norm is below 1e-2. The kernel contract has small and odd sizes; libraries choose other
// algorithms for these.
//
// Each op is a test, so that an error that a GPU does not survive costs one op. The names are
// DEVICE__MODEL__OP_N.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/cuda_support/cuda_support.h"
#include "core/ops/op_definition.h"
#include "core/tensor/bfloat16.h"
#include "tests/contract/kernels/shared_runners.h"
#include "tests/contract/sizes/sized_ops.h"

namespace weft::test {
namespace {

constexpr double kMostApart = 1e-2;
/// The same for the worst of kParts parts of an output: one wrong row hardly moves the whole norm.
constexpr double kMostApartInPart = 3e-2;
constexpr std::int64_t kParts = 64;
/// Elements of the block of random numbers that fills a tensor again and again: a prime, so that
/// equal numbers do not lie below each other.
constexpr std::size_t kBlock = 1'048'573;
/// Elements that are read back at a time.
constexpr std::int64_t kReadAtOnce = std::int64_t{1} << 25;

/// A processor as Weft uses it, and the same one without vendor libraries.
struct Devices {
  std::unique_ptr<Device> device, own;
  std::unique_ptr<Stream> stream = device->create_stream(), own_stream = own->create_stream();

  void probe() {
    const DeviceMemory memory = device->allocate(4);
    stream->fill_zero({memory.data(), 4});
    stream->synchronize();
  }
};
using KindOfDevices = KindOf<Devices>;

SharedRunners<Devices>& shared_devices = add_shared_runners<Devices>();

KindOfDevices cpu() {
  return {"cpu", [] {
            return std::make_unique<Devices>(Devices{.device = std::make_unique<CpuDevice>(),
                                                     .own = std::make_unique<CpuDevice>()});
          }};
}

KindOfDevices gpu(const std::string& name, const CudaDeviceOptions& options) {
  return {name,
          [options] {
            const PluginSearch search = plugin_search(plugin_places());
            CudaDeviceOptions own;
            own.vendor_libraries = false;
            return std::make_unique<Devices>(Devices{.device = make_cuda_device(options, search),
                                                     .own = make_cuda_device(own, search)});
          },
          true};
}
KindOfDevices cuda() { return gpu("cuda", {}); }
/// Gradients of attention may be summed in any order.
KindOfDevices cuda_nondeterministic() {
  CudaDeviceOptions options;
  options.deterministic = false;
  return gpu("cuda_nondeterministic", options);
}

/// Tensor in device memory.
struct DeviceTensor {
  DeviceTensor(Device& device, const TensorType& of)
      : type(of), memory(device.allocate(of.bytes())) {}
  TensorRef ref() const { return {type, memory.data()}; }
  std::span<std::byte> bytes() const { return {memory.data(), type.bytes()}; }

  TensorType type;
  DeviceMemory memory;
};

/// Fills a tensor with a block and its repetitions.
void fill(Stream& stream, const DeviceTensor& tensor, std::span<const std::byte> block) {
  const std::span<std::byte> to = tensor.bytes();
  std::size_t filled = std::min(block.size(), to.size());
  stream.copy(block.first(filled), to.first(filled));
  while (filled < to.size()) {
    const std::size_t more = std::min(filled, to.size() - filled);
    stream.copy(to.first(more), to.subspan(filled, more));
    filled += more;
  }
  stream.synchronize();
}

/// Fills a tensor with normal numbers.
void fill_normal(Stream& stream, const DeviceTensor& tensor, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const std::size_t count = std::min<std::size_t>(kBlock, tensor.type.elements());
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  if (tensor.type.dtype == DType::kF32)
    return fill(stream, tensor, std::as_bytes(std::span(numbers)));
  std::vector<BFloat16> rounded(count);
  convert(std::span<const float>(numbers), std::span(rounded));
  fill(stream, tensor, std::as_bytes(std::span(rounded)));
}

/// Fills a tensor with NaNs, so that elements that an op does not write are found.
void poison(Stream& stream, const DeviceTensor& tensor) {
  fill(stream, tensor, std::vector<std::byte>(std::size_t{1} << 16, std::byte{0xff}));
}

/// Returns the elements [begin, begin + count) as floats.
std::vector<float> read(Stream& stream, const DeviceTensor& tensor, std::int64_t begin,
                        std::int64_t count) {
  const std::size_t size = size_of(tensor.type.dtype);
  const auto from = tensor.bytes().subspan(begin * size, count * size);
  std::vector<float> values(count);
  if (tensor.type.dtype == DType::kF32) {
    stream.copy(from, std::as_writable_bytes(std::span(values)));
    stream.synchronize();
    return values;
  }
  std::vector<BFloat16> rounded(count);
  stream.copy(from, std::as_writable_bytes(std::span(rounded)));
  stream.synchronize();
  convert(std::span<const BFloat16>(rounded), std::span(values));
  return values;
}

/// Calls f(begin, count) for parts of a tensor. Of a tensor above 512 Mi elements, every sixteenth
/// part, the first and the last, and those at element 2^31 and around it: the host takes seconds to
/// compare all.
void for_samples(std::int64_t elements, const auto& f) {
  constexpr std::int64_t kAllUpTo = std::int64_t{1} << 29, kPast = std::int64_t{1} << 31;
  const std::int64_t parts = (elements + kReadAtOnce - 1) / kReadAtOnce;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = part * kReadAtOnce;
    const bool is_near = std::abs(part - kPast / kReadAtOnce) <= 1;
    if (elements <= kAllUpTo || part % 16 == 0 || part + 1 == parts || is_near)
      f(begin, std::min(kReadAtOnce, elements - begin));
  }
}

/// Calls f(begin, count) for parts of a tensor.
void for_parts(std::int64_t elements, const auto& f) {
  for (std::int64_t begin = 0; begin < elements; begin += kReadAtOnce)
    f(begin, std::min(kReadAtOnce, elements - begin));
}

/// Relative differences ||a - b|| / ||b|| in the Frobenius norm.
struct Apart {
  double whole = 0;
  double worst_part = 0;  ///< Of kParts equal parts. Small tensors have one part.
};

Apart apart(Stream& stream, const DeviceTensor& a, const DeviceTensor& b) {
  const std::int64_t elements = a.type.elements();
  // A part has so many elements that the norm of its rounding errors is near its mean.
  const std::int64_t parts = elements >= kParts * 256 ? kParts : 1;
  std::vector<double> differences(parts, 0), norms(parts, 0);
  for_samples(elements, [&](std::int64_t begin, std::int64_t count) {
    const std::vector<float> is = read(stream, a, begin, count),
                             should = read(stream, b, begin, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t part = (begin + i) * parts / elements;
      const double d = static_cast<double>(is[i]) - should[i];
      differences[part] += d * d;
      norms[part] += static_cast<double>(should[i]) * should[i];
    }
  });
  const auto relative = [](double difference, double norm) {
    return difference == 0 ? 0 : std::sqrt(difference / norm);
  };
  double difference = 0, norm = 0;
  Apart result;
  for (std::int64_t part = 0; part < parts; ++part) {
    difference += differences[part];
    norm += norms[part];
  }
  result.whole = relative(difference, norm);
  for (std::int64_t part = 0; part < parts; ++part) {
    // Parts that are almost zero, such as gradients of rows of a table that no token has, are
    // compared with the mean part.
    const double least = norm / static_cast<double>(parts) / 256;
    result.worst_part =
        std::max(result.worst_part, relative(differences[part], std::max(norms[part], least)));
  }
  return result;
}

bool equal_bits(Stream& stream, const DeviceTensor& a, const DeviceTensor& b) {
  bool equal = true;
  const auto bytes = static_cast<std::int64_t>(a.type.bytes());
  for_parts(bytes, [&](std::int64_t begin, std::int64_t count) {
    std::vector<std::byte> of_a(count), of_b(count);
    stream.copy(a.bytes().subspan(begin, count), of_a);
    stream.copy(b.bytes().subspan(begin, count), of_b);
    stream.synchronize();
    equal = equal && of_a == of_b;
  });
  return equal;
}

TensorType as_f32(const TensorType& type) {
  return {type.dtype == DType::kBF16 ? DType::kF32 : type.dtype, type.shape};
}

std::vector<TensorType> types_of(const std::vector<DeviceTensor>& tensors) {
  std::vector<TensorType> types;
  for (const DeviceTensor& tensor : tensors) types.push_back(tensor.type);
  return types;
}

template <typename Ref>
std::vector<Ref> refs(std::span<const DeviceTensor> tensors) {
  std::vector<Ref> result;
  for (const DeviceTensor& tensor : tensors) result.push_back(tensor.ref());
  return result;
}

/// One op with tensors of both precisions.
class SizedRun {
 public:
  /// `data` has the contents of i32 inputs, by input.
  SizedRun(Devices& devices, const Op& op, const std::vector<TensorType>& inputs,
           const std::vector<std::vector<std::byte>>& data)
      : devices_(devices), op_(op) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const DeviceTensor& input = inputs_.emplace_back(*devices.device, inputs[i]);
      if (!data[i].empty()) fill(*devices.stream, input, data[i]);
      else if (inputs[i].dtype == DType::kI32) ADD_FAILURE() << "input " << i << " has no data";
      else fill_normal(*devices.stream, input, static_cast<unsigned>(i) + 1);
      exact_inputs_.emplace_back(*devices.device, as_f32(inputs[i]));
    }
    if (const auto saved = saved_by_forward(op)) run_forward(*saved);
    for (std::size_t i = 0; i < inputs.size(); ++i) convert_input(i);
    make_outputs(inputs_, outputs_);
    make_outputs(exact_inputs_, exact_outputs_);
  }

  void compare_with_f32() {
    run(*devices_.own_stream, exact_inputs_, exact_outputs_);
    devices_.own_stream->synchronize();
    const std::size_t notes = devices_.device->notes().size();
    queue();
    devices_.stream->synchronize();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Apart found = apart(*devices_.stream, outputs_[i], exact_outputs_[i]);
      // NaNs are not below.
      EXPECT_TRUE(found.whole < kMostApart && found.worst_part < kMostApartInPart)
          << "output " << i << ", " << to_string(outputs_[i].type) << ": " << found.whole
          << ", worst part " << found.worst_part;
    }
    // A note tells that a slow kernel of Weft's replaces a library's.
    for (std::size_t i = notes; i < devices_.device->notes().size(); ++i)
      ADD_FAILURE() << devices_.device->notes()[i];
  }

  /// Runs the op as a CUDA graph. Device work in a fixed order gives equal bits.
  void compare_with_recorded() {
    std::vector<DeviceTensor> first;
    first.swap(outputs_);
    make_outputs(inputs_, outputs_);
    const auto recording = devices_.stream->record_work([&] { queue(); });
    if (recording == nullptr) return;  // a device that records nothing
    for (const DeviceTensor& output : outputs_) poison(*devices_.stream, output);
    devices_.stream->replay(*recording);
    devices_.stream->synchronize();
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      EXPECT_TRUE(equal_bits(*devices_.stream, outputs_[i], first[i])) << "output " << i;
  }

 private:
  void queue() { run(*devices_.stream, inputs_, outputs_); }
  void run(Stream& stream, const std::vector<DeviceTensor>& inputs,
           const std::vector<DeviceTensor>& outputs) {
    stream.run(op_, refs<ConstTensorRef>(inputs), refs<TensorRef>(outputs));
  }
  void make_outputs(const std::vector<DeviceTensor>& inputs, std::vector<DeviceTensor>& outputs) {
    for (const TensorType& type : infer_types(op_, types_of(inputs)))
      poison(*devices_.stream, outputs.emplace_back(*devices_.device, type));
  }

  /// Sets the f32 input to the numbers of the bf16 input.
  void convert_input(std::size_t i) {
    Stream& stream = *devices_.own_stream;
    if (inputs_[i].type.dtype == DType::kBF16)
      stream.run({OpKind::kToF32, {}}, std::vector<ConstTensorRef>{inputs_[i].ref()},
                 std::vector<TensorRef>{exact_inputs_[i].ref()});
    else stream.copy(inputs_[i].bytes(), exact_inputs_[i].bytes());
    stream.synchronize();
  }

  /// Computes the inputs that follow those of the forward op, in f32, and rounds them.
  void run_forward(const SavedByForward& saved) {
    for (std::size_t i = 0; i < saved.inputs; ++i) convert_input(i);
    Stream& stream = *devices_.own_stream;
    const std::span<const DeviceTensor> exact(exact_inputs_);
    const auto outputs = exact.subspan(saved.inputs, 2);
    stream.run(saved.op, refs<ConstTensorRef>(exact.first(saved.inputs)), refs<TensorRef>(outputs));
    for (std::size_t i = saved.inputs; i < saved.inputs + 2; ++i) {
      if (inputs_[i].type.dtype == DType::kBF16)
        stream.run({OpKind::kToBF16, {}}, std::vector<ConstTensorRef>{exact_inputs_[i].ref()},
                   std::vector<TensorRef>{inputs_[i].ref()});
      else stream.copy(exact_inputs_[i].bytes(), inputs_[i].bytes());
    }
    stream.synchronize();
  }

  Devices& devices_;
  const Op op_;
  std::vector<DeviceTensor> inputs_, outputs_, exact_inputs_, exact_outputs_;
};

struct Sized {
  KindOfDevices kind;
  SizedOp op;
  friend void PrintTo(const Sized& sized, std::ostream* out) {
    *out << sized.kind.name << ", " << sized.op.op.name_with_attributes();
    for (const TensorType& type : sized.op.op.inputs) *out << " " << to_string(type);
  }
};

bool is_attention(OpKind kind) {
  return kind == OpKind::kAttention || kind == OpKind::kAttentionGrad ||
         kind == OpKind::kCrossAttention || kind == OpKind::kCrossAttentionGrad;
}

std::vector<Sized> all_sized() {
  std::vector<Sized> all;
  const auto add = [&](const KindOfDevices& kind, const std::string& model, std::int64_t batch,
                       const auto& wanted) {
    for (const SizedOp& op : ops_of_model(model, batch)) {
      if (wanted(op.op.op.kind)) all.push_back({kind, op});
    }
  };
  for (const char* const model : {"tiny", "u-tiny"})
    add(cpu(), model, 0, [](OpKind) { return true; });
  // Attention has the model's own batch, for which cuDNN's work space may need parts. Four
  // sequences have as many rows as a matrix product needs to fill a GPU.
  for (const auto& [model, batch] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"124m", 4}, {"350m", 4}, {"1.3b", 4}, {"u-large", 2}}) {
    add(cuda(), model, batch, [](OpKind kind) { return !is_attention(kind); });
    add(cuda(), model, 0, is_attention);
    add(cuda_nondeterministic(), model, 0, [](OpKind kind) {
      return kind == OpKind::kAttentionGrad || kind == OpKind::kCrossAttentionGrad;
    });
  }
  return all;
}

/// Finds the devices of a kind, or skips the test.
class WithDevices : public testing::Test {
 protected:
  void on(const KindOfDevices& kind, const std::function<void(Devices&)>& work) {
    const auto found = shared_devices.find(kind);
    if (found.runner == nullptr) GTEST_SKIP() << found.skip_reason;
    shared_devices.watch(kind, [&] { work(*found.runner); });
  }
};

class KernelSizes : public WithDevices, public testing::WithParamInterface<Sized> {};

TEST_P(KernelSizes, InBF16AreCloseToF32) {
  on(GetParam().kind, [&](Devices& devices) {
    SizedRun run(devices, GetParam().op.op.op, GetParam().op.op.inputs, data_of(GetParam().op));
    run.compare_with_f32();
    if (GetParam().kind.name != "cuda_nondeterministic") run.compare_with_recorded();
  });
}

INSTANTIATE_TEST_SUITE_P(, KernelSizes, testing::ValuesIn(all_sized()), [](const auto& test) {
  std::string name = test.param.kind.name + "__" + test.param.op.name;
  for (char& letter : name) {
    if (letter == '.' || letter == '-') letter = '_';
  }
  return name;
});

/// Logits of more than 2^31 elements, from their product to their gradient.
class LargeLogits : public WithDevices {
 protected:
  static constexpr std::int64_t kColumns = 50304, kRows = 42752, kWidth = 64;

  void check(const Op& op, const std::vector<TensorType>& inputs) {
    on(cuda(), [&](Devices& devices) {
      std::vector<std::vector<std::byte>> data(inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].dtype != DType::kI32) continue;
        std::vector<std::int32_t> ids(inputs[i].elements());
        for (std::size_t row = 0; row < ids.size(); ++row) ids[row] = row * 7919 % kColumns;
        const auto bytes = std::as_bytes(std::span(ids));
        data[i].assign(bytes.begin(), bytes.end());
      }
      try {
        SizedRun(devices, op, inputs, data).compare_with_f32();
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kResourceExhausted) throw;
        GTEST_SKIP() << "skipped: " << error.message();
      }
    });
  }
  const TensorType logits_{DType::kBF16, {kRows, kColumns}};
  const TensorType targets_{DType::kI32, {kRows}};
};

TEST_F(LargeLogits, Product) {
  check({OpKind::kLinear, {}},
        {{DType::kBF16, {kRows, kWidth}}, {DType::kBF16, {kWidth, kColumns}}});
}
TEST_F(LargeLogits, CrossEntropy) {
  check({OpKind::kCrossEntropy, {{"scale", 1.0 / kRows}}}, {logits_, targets_});
}
TEST_F(LargeLogits, CrossEntropyGrad) {
  check({OpKind::kCrossEntropyGrad, {{"scale", 1.0 / kRows}}}, {logits_, targets_});
}

}  // namespace
}  // namespace weft::test
