# Llama on four devices with PaddleNLP's automatic parallelism.
set -e
task_name=llama_auto
export SOT_LOG_LEVEL=4

python -u -m paddle.distributed.launch \
    --gpus "0,1,2,3" \
    --job_id "$task_name" \
    --max_restart 0 \
    --log_dir "${OUTPUT:-output}/${task_name}_log" \
    run_pretrain_auto.py \
    --model_type "llama" \
    --model_name_or_path "${MODEL:-facebook/llama-7b}" \
    --tokenizer_name_or_path "${TOKENIZER:-facebook/llama-7b}" \
    --input_dir "${DATA:-./data}" \
    --output_dir "${OUTPUT:-output}/$task_name" \
    --split 949,50,1 \
    --max_seq_length ${SEQUENCE:-2048} \
    --per_device_train_batch_size 1 \
    --per_device_eval_batch_size 4 \
    --gradient_accumulation_steps 4 \
    --use_flash_attention 1 \
    --use_fused_rms_norm 1 \
    --fp16 0 \
    --fp16_opt_level "O2" \
    --amp_master_grad 1 \
    --amp_custom_black_list "reduce_sum" "c_softmax_with_cross_entropy" \
    --amp_custom_white_list "lookup_table" "lookup_table_v2" \
    --scale_loss 1024 \
    --pipeline_parallel_degree 4 \
    --pipeline_schedule_mode "Eager-1F1B" \
    --tensor_parallel_degree 1 \
    --sharding_parallel_degree 1 \
    --sharding "" \
    --virtual_pp_degree 1 \
    --virtual_pipeline_seg_method "LlamaDecoderLayerAuto" \
    --pipeline_parallel_config "enable_send_recv_overlap enable_split_backward" \
    --learning_rate 0.0001 \
    --min_learning_rate 0.00001 \
    --max_steps ${STEPS:-20} \
    --save_steps 5000 \
    --weight_decay 0.01 \
    --warmup_ratio 0.01 \
    --max_grad_norm 1.0 \
    --logging_steps 1 \
    --dataloader_num_workers 1 \
    --eval_steps 1000000 \
    --disable_tqdm true \
    --continue_training 0 \
    --recompute 0 \
    --do_train \
    --do_eval \
    --data_impl "mmap" \
    --device "${DEVICE:-gpu}" \
    --enable_auto_parallel 1 \
    --to_static 1 \
    --skip_memory_metrics 0
