# Llama with its options in a file, of which the command line changes some.
set -e
python -u -m paddle.distributed.launch --devices "0,1,2,3" run_pretrain.py "${ARGUMENTS:-pretrain_argument.json}" \
    --model_name_or_path "${MODEL:-facebook/llama-7b}" --tokenizer_name_or_path "${TOKENIZER:-facebook/llama-7b}" \
    --input_dir "${DATA:-./data}" --output_dir "${OUTPUT:-output}/llama_json" --max_seq_length ${SEQUENCE:-4096} \
    --max_steps ${STEPS:-10000} --warmup_steps ${WARMUP:-30} --device "${DEVICE:-gpu}"
