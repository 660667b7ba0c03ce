#include "tests/contract/kernels/kernel_runners.h"

#include <algorithm>
#include <cstring>

#include "core/cuda/internal/op_run.h"
#include "tests/contract/device/device_kinds.h"

namespace weft::test {
namespace {

/// Test double of the GPU and of vendor libraries that refuse every op, so that Weft's own kernels
/// do all work.
class HostBackend final : public cuda::Backend {
 public:
  cuda::StreamHandle stream() const override { return nullptr; }
  void* allocate(std::size_t bytes) override {
    blocks_.push_back(std::make_unique<Block[]>(bytes / sizeof(Block) + 1));
    // NaNs, as work space may hold other data.
    std::memset(blocks_.back().get(), 0xff, bytes);
    return blocks_.back().get();
  }
  cuda::FaultWord* fault() const override { return &fault_; }
  std::size_t shared_memory() const override { return 227 * 1024; }  // H200
  void fill_zero(void* memory, std::size_t bytes) override { std::memset(memory, 0, bytes); }

  void multiply(const cuda::MatrixProduct& product) override {
    cuda::matrix_product(nullptr, product);
  }
  bool multiply_fused(const cuda::MatrixProduct&) override { return false; }
  bool convolve(const cuda::Convolution&) override { return false; }
  bool attend(DType, const cuda::Attention&, const void*, const void*, const void*, void*,
              float*) override {
    return false;
  }
  bool attend_grad(DType, const cuda::Attention&, const cuda::AttentionGradTensors&) override {
    return false;
  }

  void free_work_space() { blocks_.clear(); }

 private:
  struct alignas(256) Block {
    std::byte bytes[256];
  };
  std::vector<std::unique_ptr<Block[]>> blocks_;
  mutable volatile std::uint64_t fault_ = 0;
};

/// Runner that executes CUDA kernels in host_grid, on the test's own memory.
class HostRunner final : public KernelRunner {
 public:
  explicit HostRunner(HostOrder order) : order_(order) {}

  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes) override {
    host_order = order_;
    cuda::run_op(backend_, op, inputs, outputs, modes);
    backend_.free_work_space();
    cuda::check_fault(*backend_.fault());
  }
  void add(std::span<const float> from, std::span<float> to) override {
    host_order = order_;
    cuda::launch_elementwise(nullptr, OpKind::kAdd, DType::kF32, to.data(), from.data(), to.data(),
                             to.size(), 0, false);
  }
  void adamw(const AdamW& step, std::span<const AdamWParameter> parameters) override {
    host_order = order_;
    cuda::adamw(nullptr, step, parameters);
  }
  void sums_of_squares(std::span<const std::span<const float>> tensors,
                       std::span<double> results) override {
    host_order = order_;
    auto* const workspace = backend_.allocate_of<double>(cuda::sums_of_squares_workspace(tensors));
    cuda::sums_of_squares(nullptr, tensors, results.data(), workspace);
    backend_.free_work_space();
  }

 private:
  HostOrder order_;
  HostBackend backend_;
};

/// Run whose results count: the first run of an op, or the third, which replays the recording of
/// the second.
enum class Queueing : std::uint8_t { kOnce, kRecorded };

/// Runner on a device: copies arguments to it and results back.
class DeviceRunner final : public KernelRunner {
 public:
  DeviceRunner(std::unique_ptr<Device> device, Queueing queueing)
      : device_(std::move(device)), stream_(device_->create_stream()), queueing_(queueing) {}
  ~DeviceRunner() override { there_.clear(); }

  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes) override {
    std::vector<ConstTensorRef> in;
    for (const ConstTensorRef& input : inputs)
      in.push_back({input.type, send(input.data, input.type.bytes())});
    std::vector<TensorRef> out;
    for (const TensorRef& output : outputs) {
      // An op that runs in place here also runs in place on the device.
      std::byte* memory = nullptr;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].data == output.data) memory = const_cast<std::byte*>(in[i].data);
      }
      out.push_back(
          {output.type, memory != nullptr ? memory : send(output.data, output.type.bytes())});
    }
    const auto work = [&] { stream_->run(op, in, out, modes); };
    work();
    std::unique_ptr<Recording> recording;
    if (queueing_ == Queueing::kRecorded) {
      const auto restore = [&] {
        for (std::size_t i = 0; i < outputs.size(); ++i)
          stream_->copy({outputs[i].data, outputs[i].type.bytes()},
                        {out[i].data, outputs[i].type.bytes()});
      };
      restore();
      recording = stream_->record_work(work);
      restore();
      if (recording != nullptr) stream_->replay(*recording);
      else work();
    }
    for (std::size_t i = 0; i < outputs.size(); ++i)
      receive(out[i].data, outputs[i].data, outputs[i].type.bytes());
    finish();
  }
  void add(std::span<const float> from, std::span<float> to) override {
    const std::span<const float> f = send_floats(from);
    const std::span<float> t = send_floats(to);
    stream_->add(f, t);
    receive(t.data(), to.data(), to.size_bytes());
    finish();
  }
  void adamw(const AdamW& step, std::span<const AdamWParameter> parameters) override {
    std::vector<AdamWParameter> sent;
    for (const AdamWParameter& p : parameters) {
      AdamWParameter s{send_floats(p.gradient),
                       send_floats(p.value),
                       send_floats(p.first_moment),
                       send_floats(p.second_moment),
                       p.decay,
                       p.working};
      if (p.working.data != nullptr) s.working.data = send(p.working.data, p.working.type.bytes());
      sent.push_back(s);
    }
    stream_->adamw(step, sent);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const AdamWParameter& p = parameters[i];
      receive(sent[i].value.data(), p.value.data(), p.value.size_bytes());
      receive(sent[i].first_moment.data(), p.first_moment.data(), p.first_moment.size_bytes());
      receive(sent[i].second_moment.data(), p.second_moment.data(), p.second_moment.size_bytes());
      if (p.working.data != nullptr)
        receive(sent[i].working.data, p.working.data, p.working.type.bytes());
    }
    finish();
  }
  void sums_of_squares(std::span<const std::span<const float>> tensors,
                       std::span<double> results) override {
    std::vector<std::span<const float>> sent;
    for (const std::span<const float> tensor : tensors) sent.push_back(send_floats(tensor));
    stream_->sums_of_squares(sent, results);
    finish();
  }

 private:
  /// Copies to the device. Keeps the address modulo 16, which decides whether kernels may load
  /// whole packs.
  std::byte* send(const void* data, std::size_t bytes) {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(data) % 16;
    there_.push_back(device_->allocate(bytes + 16));
    std::byte* const to = there_.back().data() + offset;
    stream_->copy({static_cast<const std::byte*>(data), bytes}, {to, bytes});
    return to;
  }
  std::span<float> send_floats(std::span<const float> values) {
    return {reinterpret_cast<float*>(send(values.data(), values.size_bytes())), values.size()};
  }
  void receive(const void* from, void* to, std::size_t bytes) {
    stream_->copy({static_cast<const std::byte*>(from), bytes},
                  {static_cast<std::byte*>(to), bytes});
  }
  void finish() {
    stream_->synchronize();
    there_.clear();
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  const Queueing queueing_;
  std::vector<DeviceMemory> there_;
};

}  // namespace

std::unique_ptr<KernelRunner> cuda_on_host(HostOrder order) {
  return std::make_unique<HostRunner>(order);
}

std::vector<KindOfRunner> kernel_runners() {
  std::vector<KindOfRunner> kinds{
      {"cuda_on_host", [] { return cuda_on_host(HostOrder::kForward); }},
      {"cublaslt_on_host", cublaslt_on_host},
  };
  for (const KindOfDevice& kind : device_kinds()) {
    if (kind.name == "detached") continue;  // the CPU's kernels in another thread
    const auto add_kind = [&](const std::string& suffix, Queueing queueing) {
      kinds.push_back({kind.name + suffix,
                       [make = kind.make, queueing] {
                         return std::make_unique<DeviceRunner>(make(), queueing);
                       },
                       kind.name == "cuda"});
    };
    add_kind("", Queueing::kOnce);
    add_kind("_recorded", Queueing::kRecorded);
  }
  return kinds;
}

}  // namespace weft::test
