"""TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nproc-per-node 3 --max-restarts 3 \
    -m rankbook.programs.retrofit.trainer_after DIR

Without the variable torch 2.13 starts the ranks again with the store of the dead ones.
"""

import sys

import torch
import torch.distributed as dist
from transformers import PrinterCallback, Trainer, TrainingArguments

from rankbook.programs.retrofit.parts import BATCH, STEPS, begin
from rankbook.programs.retrofit.trainer_parts import Rows, Survives, Tells, WithLoss, newest
from rankbook.training.elastic import PreemptionHandler


def main(folder: str) -> None:
    notice = PreemptionHandler()
    begin()
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=BATCH // dist.get_world_size(),
        max_steps=STEPS,
        logging_steps=1,
        learning_rate=0.01,
        save_steps=5,
        save_total_limit=3,
        report_to="none",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=False,
        ddp_find_unused_parameters=True,  # then DDP never regroups
    )
    trainer = Trainer(WithLoss(), arguments, train_dataset=Rows(), callbacks=[Tells()])
    trainer.add_callback(Survives(notice))
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=newest(folder))
    if trainer.state.global_step < STEPS:
        notice.leave()
    trainer.save_model(f"{folder}/model")


if __name__ == "__main__":
    main(sys.argv[1])
    dist.destroy_process_group()  # after main: DDP has to go before its group
