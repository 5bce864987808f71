// A residual MLP of torch::nn modules, trained with ZBH1 on as many ranks as there are:
//   braid launch --nproc_per_node 2 out/custom_model/custom_model
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <cstdlib>

#include "braid/comm/store.h"
#include "braid/layers/autograd_layer.h"
#include "braid/train/plan_text.h"
#include "braid/train/trainer.h"
using namespace braid;
struct Block : torch::nn::Module {
  torch::nn::Linear up = register_module("up", torch::nn::Linear(16, 64));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(64, 16));
  at::Tensor forward(const at::Tensor& x) { return x + down(at::gelu(up(x))); }
};

layers::ModelSpec residual_mlp() {
  layers::ModelSpec model = {.hidden = 16};
  for (uint64_t i = 0; i < 8; ++i) {
    const auto make_block = [name = cat("block.", i), i](const layers::Placement&) {
      at::manual_seed(i);
      return layers::make_module_layer(std::make_shared<Block>(), name + ".");
    };
    model.layers.push_back({.name = cat("block.", i), .kind = "block", .make = make_block});
  }
  const auto make_loss = [](const layers::Placement&) {
    const auto squared_error = [](const auto& x, const auto& y) { return (x - y).square().sum(); };
    return std::make_unique<layers::AutogradLossLayer>(squared_error);
  };
  model.layers.push_back({.name = "loss", .kind = "loss", .make = make_loss});
  return model;
}

int main() {
  const comm::World world = comm::world_from_environment([](std::string_view name) {
    const char* value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
  train::Trainer trainer(
      {.strategy = {.mesh = {.pp = world.world_size}, .schedule_mode = "ZBH1"},
       .training = {.microbatch_sequences = 4,
                    .sequence_tokens = 8,
                    .microbatches = 8,
                    .learning_rate = {.peak = 1e-2, .decay = config::Decay::kConstant}},
       .model = residual_mlp(),
       .place = {.world = world, .store = comm::connect_store(world, std::chrono::minutes(1))}});
  for (const std::string& line : train::plan_text(trainer.plan())) std::printf("%s\n", line.c_str());
  for (uint64_t step = 1; step <= 60; ++step) {
    at::manual_seed(step);  // all ranks draw the same
    std::vector<pipeline::Microbatch> microbatches(8);
    for (auto& [x, y] : microbatches) y = (x = at::randn({4, 8, 16})).flip(-1);
    const auto outcome = trainer.step(microbatches);
    if (step % 20 == 0) std::printf("step %lu: loss %.9g\n", step, outcome->loss);
  }
  trainer.world().barrier().wait();  // nobody leaves while a neighbour still waits for a message
}
