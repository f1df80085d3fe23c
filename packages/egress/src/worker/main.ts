import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { EgressOptions } from './egress-options.ts'
import { GateWorker } from './gate-worker.ts'
import type { FromWorker, ToWorker } from './messages.ts'

/** The worker thread: serves requests of the main thread and replies when they are done. */
function serve(port: MessagePort, options: EgressOptions): void {
  const tell = (message: FromWorker) => port.postMessage(message)
  const gateWorker = new GateWorker(options, {
    onDenial: (denial) => tell({ type: 'denial', denial }),
    onFailedLookup: (failed) => tell({ type: 'failed-lookup', failed }),
    onDataAsleep: (sandboxId) => tell({ type: 'data-asleep', sandboxId }),
    onLost: (sandboxId, to) => tell({ type: 'lost', sandboxId, to }),
  })

  const answer = (request: number, work: Promise<unknown>) =>
    void work.then(
      (value) => tell({ type: 'done', request, value }),
      (error: Error) => tell({ type: 'failed', request, message: error.message }),
    )

  port.on('message', (message: ToWorker) => {
    switch (message.type) {
      case 'attach':
        return answer(message.request, gateWorker.attach(message.attach))
      case 'change':
        return answer(message.request, gateWorker.change(message.sandboxId, message.policy))
      case 'detach':
        return answer(message.request, gateWorker.detach(message.sandboxId))
      case 'park':
        return answer(message.request, gateWorker.park(message.sandboxId))
      case 'list-open':
        return answer(message.request, gateWorker.listOpen(message.sandboxId))
      case 'unpark':
        return answer(message.request, gateWorker.unpark(message.sandboxId))
      case 'resume':
        return answer(message.request, gateWorker.resume(message.sandboxId, message.ends))
      case 'end-parked':
        return answer(message.request, gateWorker.endParked(message.sandboxId))
      case 'forget':
        return void gateWorker.forget(message.sandboxId)
      case 'host-addresses':
        return gateWorker.setHostAddresses(message.addresses)
      case 'report-denials':
        return answer(message.request, gateWorker.reportDenials())
      case 'close':
        return answer(message.request, gateWorker.close())
    }
  })
  tell({ type: 'ready' })
}

if (parentPort !== null) serve(parentPort, workerData as EgressOptions)
