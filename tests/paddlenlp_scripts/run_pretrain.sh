# Llama on four devices: tensor parallelism, pipeline and sharding, as a user of PaddleNLP's dynamic graph starts it.
set -e
model=${MODEL:-facebook/llama-7b}
tokenizer=${TOKENIZER:-facebook/llama-7b}
task_name=llama_hybrid
export FLAGS_cudnn_deterministic=1
export PYTHONPATH=../:$PYTHONPATH

python -u -m paddle.distributed.launch \
    --gpus "0,1,2,3" \
    --log_dir "${OUTPUT:-output}/${task_name}_log" \
    run_pretrain.py \
    --model_type "llama" \
    --model_name_or_path "$model" \
    --tokenizer_name_or_path "$tokenizer" \
    --input_dir "${DATA:-./data}" \
    --output_dir "${OUTPUT:-output}/$task_name" \
    --split 949,50,1 \
    --max_seq_length ${SEQUENCE:-2048} \
    --per_device_train_batch_size 1 \
    --per_device_eval_batch_size 1 \
    --gradient_accumulation_steps 4 \
    --use_flash_attention 1 \
    --use_fused_rms_norm 0 \
    --fuse_attention_qkv 0 \
    --fp16 0 \
    --fp16_opt_level "O2" \
    --scale_loss 1024 \
    --tensor_parallel_degree 2 \
    --pipeline_parallel_degree 2 \
    --virtual_pp_degree 1 \
    --tensor_parallel_config "enable_mp_async_allreduce" \
    --pipeline_parallel_config "disable_partial_send_recv enable_timer" \
    --learning_rate 0.00001 \
    --min_learning_rate 0.000001 \
    --max_steps ${STEPS:-10000} \
    --save_steps 5000 \
    --weight_decay 0.01 \
    --warmup_ratio 0.01 \
    --max_grad_norm 1.0 \
    --logging_steps 1 \
    --dataloader_num_workers 1 \
    --sharding "stage1" \
    --eval_steps 1000 \
    --report_to "none" \
    --disable_tqdm true \
    --continue_training 0 \
    --recompute 1 \
    --recompute_granularity full \
    --do_train \
    --do_eval \
    --device "${DEVICE:-gpu}"
