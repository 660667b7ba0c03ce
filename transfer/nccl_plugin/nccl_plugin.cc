// Implementation of CollectivesPlugin with NCCL.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/error.h"
#include "core/cuda_support/file_of_function.h"
#include "transfer/nccl/collectives_plugin.h"
#include "transfer/nccl_plugin/internal/box_copies.h"
#include "transfer/nccl_plugin/internal/launch.h"
#include "transfer/nccl_plugin/internal/nccl_check.h"
#include "transfer/nccl_plugin/internal/nccl_communicator.h"

namespace weft::transfer {
namespace {

class NcclCollectives final : public DeviceCollectives {
 public:
  explicit NcclCollectives(const CollectivesOptions& options) : options_(options) {}

  std::string description() const override { return nccl_version(); }

  std::vector<std::byte> make_id() override {
    ncclUniqueId id;
    check_nccl(ncclGetUniqueId(&id), "making the id of a communicator");
    const auto bytes = std::as_bytes(std::span(id.internal));
    return {bytes.begin(), bytes.end()};
  }

  std::unique_ptr<DeviceCommunicator> create(std::span<const std::byte> id, int size, int rank,
                                             const std::string& name) override {
    ncclUniqueId unique;
    if (id.size() != sizeof(unique.internal)) {
      throw_error(ErrorCode::kInvalidArgument,
                  "the id of the communicator '{}' has {} bytes; expected {}. Use the same version "
                  "of NCCL on "
                  "all devices",
                  name, id.size(), sizeof(unique.internal));
    }
    std::memcpy(unique.internal, id.data(), id.size());
    return std::make_unique<NcclCommunicator>(options_.gpu, unique, size, rank, options_.max_blocks,
                                              name);
  }

  void copy(std::span<const DeviceCopy> copies, weft::Stream& stream) override {
    use_gpu(options_.gpu);
    for (const BoxCopies& launch : box_copies(copies))
      launch_copies(launch, stream.native_handle());
  }
  void sum(const DeviceSum& sum, weft::Stream& stream) override {
    use_gpu(options_.gpu);
    if (sum.terms.empty() || sum.terms.size() > SumTerms::kMaxTerms)
      throw_error(ErrorCode::kInvalidArgument, "a sum of {} terms; it has 1 to {}",
                  sum.terms.size(), SumTerms::kMaxTerms);
    SumTerms terms;
    terms.count = sum.terms.size();
    std::copy(sum.terms.begin(), sum.terms.end(), terms.term);
    launch_sum(sum.dtype, terms, sum.count, sum.to, stream.native_handle());
  }

 private:
  const CollectivesOptions options_;
};

class NcclPlugin final : public CollectivesPlugin {
 public:
  std::string library() const override { return nccl_version(); }
  std::string library_file() const override { return file_of_function(&ncclGetVersion); }

  std::string processor(int gpu) const override {
    std::array<char, 32> bus_id{};
    if (const cudaError_t status = cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), gpu);
        status != cudaSuccess)
      throw_error(ErrorCode::kFailedPrecondition, "GPU {} has no PCI bus id: {}", gpu,
                  cudaGetErrorString(status));
    return bus_id.data();
  }

  std::unique_ptr<DeviceCollectives> make_collectives(
      const CollectivesOptions& options) const override {
    return std::make_unique<NcclCollectives>(options);
  }
};

}  // namespace
}  // namespace weft::transfer

extern "C" weft::transfer::CollectivesPlugin* weft_nccl_plugin(std::uint64_t stamp) {
  return stamp == weft::transfer::CollectivesPlugin::stamp() ? new weft::transfer::NcclPlugin
                                                             : nullptr;
}
