import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { EgressOptions } from './egress-options.ts'
import { Keeper } from './keeper.ts'
import type { FromWorker, ToWorker } from './messages.ts'

/** The worker thread: does what the main thread asks, and says when it is done. */
function serve(port: MessagePort, options: EgressOptions): void {
  const tell = (message: FromWorker) => port.postMessage(message)
  const keeper = new Keeper(options, (denied) => tell({ type: 'denied', denied }))

  const answer = (request: number, work: Promise<void>) =>
    void work.then(
      () => tell({ type: 'done', request }),
      (error: Error) => tell({ type: 'failed', request, message: error.message }),
    )

  port.on('message', (message: ToWorker) => {
    switch (message.type) {
      case 'attach':
        return answer(message.request, keeper.attach(message.attach))
      case 'change':
        return answer(message.request, keeper.change(message.sandboxId, message.policy))
      case 'detach':
        return answer(message.request, keeper.detach(message.sandboxId))
      case 'forget':
        return void keeper.forget(message.sandboxId)
      case 'own-addresses':
        return keeper.setOwnAddresses(message.addresses)
      case 'close':
        return answer(message.request, keeper.close())
    }
  })
  tell({ type: 'ready' })
}

if (parentPort !== null) serve(parentPort, workerData as EgressOptions)
