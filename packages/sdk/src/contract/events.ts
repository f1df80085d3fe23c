// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type ServerEventAnswer = {
  seq: number
  type:
    | 'deploy.failed'
    | 'deploy.ready'
    | 'deploy.rolled_back'
    | 'deploy.started'
    | 'gap'
    | 'job.created'
    | 'job.ended'
    | 'run.finished'
    | 'run.started'
    | 'sandbox.changed'
    | 'sandbox.deleted'
    | 'sandbox.ledger'
    | 'sandbox.usage'
    | 'template.changed'
  at: string
  sandboxId?: string | undefined
  data: Readonly<Record<string, unknown>>
}
