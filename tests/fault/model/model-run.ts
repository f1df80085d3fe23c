import { setTimeout as sleep } from 'node:timers/promises'
import type { ServerProcess } from '../../server/server-process.ts'
import { call, type Outcome } from './calls.ts'
import { killInside } from './kill-inside.ts'
import type { PossibleStates } from './possible-states.ts'
import type { Random } from './random.ts'
import { newSandboxModel, type SandboxModel, type SnapshotModel } from './sandbox-model.ts'

const SANDBOXES_MAX = 4
const WRITES_MAX = 3
const KILL_SHARE = 0.3
const KILL_AFTER_MAX_MS = 250
const VERIFY_SHARE = 0.6
const RUN_TIMEOUT_MS = 3_000
const CHANGES = [
  'none',
  'none',
  'freeze',
  'store',
  'store',
  'snapshot',
  'rollback',
  'fork',
  'die',
  'delete',
] as const

type Change = (typeof CHANGES)[number]

/** Codes that a correct server may answer when calls compete. Every other refusal is a violation. */
const EXPECTED = new Set([
  'conflict',
  'overloaded',
  'not_found',
  'burrow_ended',
  'agent_unreachable',
  'cancelled',
  // Processes were killed in the middle of a wake.
  'restore_failed',
  'burrow_start_failed',
  // Put to standby by another caller in the middle: the run ends after the next wake.
  'run_unfinished',
])

const PREPARE = 'import os\ntokens = []\nopen("/root/tokens", "w").close()'
const WRITE = (token: string) =>
  `tokens.append("${token}")\nwith open("/root/tokens", "a") as f: f.write("${token}\\n")`
const READ = 'print(" ".join(tokens)); print(" ".join(open("/root/tokens").read().split()))'
/** Long enough to be killed in the middle. */
const LINGER = 'import time; time.sleep(1)'

/** Plays random operations against a real server and holds every answer against what the model allows. */
export class ModelRun {
  readonly history: string[] = []
  kills = 0
  operations = 0
  verifications = 0
  readonly #server: ServerProcess
  readonly #random: Random
  #sandboxes: SandboxModel[] = []
  #tokens = 0

  constructor(server: ServerProcess, random: Random) {
    this.#server = server
    this.#random = random
  }

  /**
   * One group of calls that run at once, most often on one sandbox, and in three of ten a `kill -9` of the server
   * among them.
   */
  async step(): Promise<void> {
    if (this.#sandboxes.length < 2 || (this.#sandboxes.length < SANDBOXES_MAX && this.#random.chance(0.1)))
      await this.#create()
    const chosen = new Set([this.#random.pick(this.#sandboxes), this.#random.pick(this.#sandboxes)])
    const groups = [...chosen].map((model) => this.#begin(model))
    if (this.#random.chance(KILL_SHARE)) {
      await sleep(this.#random.int(0, KILL_AFTER_MAX_MS))
      this.#note('kill -9')
      this.kills += 1
      await this.#server.kill()
      await Promise.all(groups.map(({ answered }) => answered))
      await this.#server.begin()
    }
    for (const group of groups) await this.#settle(group)
    for (const model of chosen)
      if (this.#sandboxes.includes(model) && this.#random.chance(VERIFY_SHARE)) await this.#verify(model)
  }

  async verifyAll(): Promise<void> {
    for (const model of [...this.#sandboxes]) await this.#verify(model)
  }

  /** Removes all sandboxes and snapshots. */
  async removeAll(): Promise<void> {
    for (const kind of ['sandboxes', 'snapshots'])
      for (const { id } of (await this.#server.ok(`/v1/${kind}`)).items)
        await this.#server.ok(`/v1/${kind}/${id}`, { method: 'DELETE' })
    this.#sandboxes = []
  }

  async #create(): Promise<void> {
    const { id } = await this.#server.ok('/v1/sandboxes', {
      json: { idleTimeoutMs: 0, network: { mode: 'none' } },
    })
    this.#note(`${id} create`)
    await this.#server.run(id, PREPARE)
    // From here on there is a snapshot that a loss leads back to.
    await this.#server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    this.#sandboxes.push(newSandboxModel(id))
  }

  #begin(model: SandboxModel): Group {
    const writes = Array.from({ length: this.#random.int(0, WRITES_MAX) }, () => this.#newWrite(model))
    const change = this.#random.pick(CHANGES)
    const target = model.snapshots.length === 0 ? undefined : this.#random.pick(model.snapshots)
    this.#note(`${model.id} ${change} ${writes.map(({ token }) => token).join(' ')}`)
    const changed = this.#change(model, change, target)
    const answered = Promise.all([...writes.map(({ outcome }) => outcome), changed])
    return { model, writes, change, target, changed, answered }
  }

  #newWrite(model: SandboxModel): Write {
    this.#tokens += 1
    const token = `t${this.#tokens}`
    return { token, outcome: this.#write(model, token) }
  }

  #write({ id }: SandboxModel, token: string): Promise<Outcome> {
    const json = { code: WRITE(token), idempotencyKey: token, timeoutMs: RUN_TIMEOUT_MS }
    this.operations += 1
    return call(this.#server, `/v1/sandboxes/${id}/run`, { json })
  }

  async #change({ id }: SandboxModel, change: Change, target: SnapshotModel | undefined): Promise<Outcome> {
    this.operations += 1
    const to = (action: string, json: object) => call(this.#server, `/v1/sandboxes/${id}/${action}`, { json })
    if (change === 'freeze') return to('standby', { tier: 'frozen' })
    if (change === 'store') return to('standby', { tier: 'stored' })
    if (change === 'snapshot') return to('snapshots', {})
    if (change === 'fork') return to('fork', { count: this.#random.int(1, 2) })
    if (change === 'die') return this.#die(id, to('run', { code: LINGER, timeoutMs: RUN_TIMEOUT_MS }))
    if (change === 'delete') return call(this.#server, `/v1/sandboxes/${id}`, { method: 'DELETE' })
    if (change === 'rollback' && target !== undefined) return to('rollback', { snapshotId: target.id })
    return { kind: 'done', body: undefined }
  }

  /** Its processes are killed in the middle of a run, which must end all the same. */
  async #die(id: string, run: Promise<Outcome>): Promise<Outcome> {
    await sleep(this.#random.int(0, KILL_AFTER_MAX_MS))
    const what = this.#random.pick(['killAgent', 'killBurrow'] as const)
    this.#note(`${id} ${what}: ${await killInside(this.#server.factory, id, what)}`)
    return run
  }

  /** Sends writes again whose answers were lost, and works out what the sandbox may hold now. */
  async #settle({ model, writes, change, target, changed }: Group): Promise<void> {
    const outcome = this.#checked(model, change, await changed)
    if (change === 'delete') return this.#settleDelete(model, writes, outcome)
    const tokens = writes.map(({ token }) => token)
    const certain: string[] = []
    for (const write of writes) if (await this.#isWritten(model, write)) certain.push(write.token)
    const doubtful = tokens.filter((token) => !certain.includes(token))
    const before = { memory: model.memory, file: model.file }
    const after = (states: PossibleStates) =>
      certain.reduce((all, token) => all.with(token), states).maybeWith(doubtful)
    model.memory = after(before.memory)
    model.file = after(before.file)
    if (outcome.kind === 'refused') return
    await EFFECTS[change]?.({ model, before, tokens, target, outcome, run: this })
  }

  /** Children that the model did not know: of forks whose answer was lost, or that it keeps. */
  async adoptChildren(parent: SandboxModel, ids: readonly string[], from: SnapshotModel): Promise<void> {
    for (const id of ids) {
      if (this.#sandboxes.length < SANDBOXES_MAX) this.#sandboxes.push(newSandboxModel(id, from))
      else await this.#server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
      this.#note(`${id} is a child of ${parent.id}`)
    }
  }

  async strangers(): Promise<string[]> {
    const { items } = await this.#server.ok('/v1/sandboxes')
    const known = new Set(this.#sandboxes.map(({ id }) => id))
    return items.map(({ id }: { id: string }) => id).filter((id: string) => !known.has(id))
  }

  async #settleDelete(model: SandboxModel, writes: readonly Write[], outcome: Outcome): Promise<void> {
    await Promise.all(writes.map((write) => write.outcome))
    if (outcome.kind === 'unknown') await this.#server.call(`/v1/sandboxes/${model.id}`, { method: 'DELETE' })
    this.#sandboxes = this.#sandboxes.filter((other) => other !== model)
    const { status } = await this.#server.call(`/v1/sandboxes/${model.id}`)
    if (status !== 404) throw new Error(`${model.id} was deleted and answers ${status}.`)
  }

  /** Whether a write is acknowledged, at the first or at the second try. */
  async #isWritten(model: SandboxModel, { token, outcome }: Write): Promise<boolean> {
    let known = this.#checked(model, `write ${token}`, await outcome)
    if (known.kind === 'unknown') {
      this.#note(`${model.id} write ${token} again`)
      known = this.#checked(model, `write ${token}`, await this.#write(model, token))
    }
    return known.kind === 'done' && known.body.exitCode === 0
  }

  #checked({ id }: SandboxModel, what: string, outcome: Outcome): Outcome {
    const said = outcome.kind === 'refused' ? ` ${outcome.code}: ${outcome.message}` : ''
    const ended = outcome.kind === 'done' && outcome.body?.exitCode ? ` exit ${outcome.body.exitCode}` : ''
    this.#note(`${id} ${what}: ${outcome.kind}${said}${ended}`)
    if (outcome.kind === 'refused' && !EXPECTED.has(outcome.code))
      throw new Error(`${id} ${what} was refused: ${outcome.code} ${outcome.message}`)
    return outcome
  }

  async #verify(model: SandboxModel): Promise<void> {
    this.verifications += 1
    const [memory = '', file = ''] = (await this.#server.run(model.id, READ)).split('\n')
    const seen = { memory: words(memory), file: words(file) }
    const known = { memory: model.memory.seen(seen.memory), file: model.file.seen(seen.file) }
    if (known.memory === undefined)
      throw new Error(`${model.id} remembers {${memory}}; it must be ${model.memory}.`)
    if (known.file === undefined)
      throw new Error(`${model.id} has a file {${file}}; it must be ${model.file}.`)
    model.memory = known.memory
    model.file = known.file
  }

  #note(line: string): void {
    this.history.push(line)
  }
}

interface Write {
  readonly token: string
  readonly outcome: Promise<Outcome>
}

interface Group {
  readonly model: SandboxModel
  readonly writes: readonly Write[]
  readonly change: Change
  readonly target: SnapshotModel | undefined
  readonly changed: Promise<Outcome>
  readonly answered: Promise<unknown>
}

interface Effect {
  readonly model: SandboxModel
  /** As it was before the group. */
  readonly before: Pick<SandboxModel, 'memory' | 'file'>
  /** What was being written meanwhile. */
  readonly tokens: readonly string[]
  readonly target: SnapshotModel | undefined
  readonly outcome: Outcome
  readonly run: ModelRun
}

/** What each change makes possible beside the writes. `outcome` is done, or unknown. */
const EFFECTS: Partial<Record<Change, (effect: Effect) => Promise<void> | void>> = {
  freeze: save,
  store: save,
  snapshot: (effect) => {
    save(effect)
    const { outcome, model } = effect
    if (outcome.kind === 'done') model.snapshots.push({ id: outcome.body.id, ...duringSave(effect) })
  },
  fork: async (effect) => {
    save(effect)
    const { outcome, model, run } = effect
    // A fork whose answer was lost has happened or not; children that exist are whole.
    const ids =
      outcome.kind === 'done'
        ? outcome.body.children.map(({ id }: { id: string }) => id)
        : await run.strangers()
    await run.adoptChildren(model, ids, { id: model.id, ...duringSave(effect) })
  },
  rollback: ({ model, tokens, target, outcome }) => {
    if (target === undefined) return
    const memory = target.memory.maybeWith(tokens)
    const file = target.file.maybeWith(tokens)
    const isDone = outcome.kind === 'done'
    model.memory = isDone ? memory : model.memory.or(memory)
    model.file = isDone ? file : model.file.or(file)
    model.saved = isDone ? memory : model.saved.or(memory)
    model.savedFile = isDone ? file : model.savedFile.or(file)
  },
  // It was killed, or it slept at that moment and there was nothing to kill.
  die: ({ model, tokens }) => {
    model.memory = model.memory.or(model.saved.maybeWith(tokens))
    model.file = model.file.or(model.savedFile.maybeWith(tokens))
  },
}

function duringSave({ before, tokens }: Effect): Pick<SandboxModel, 'memory' | 'file'> {
  return { memory: before.memory.maybeWith(tokens), file: before.file.maybeWith(tokens) }
}

function save(effect: Effect): void {
  const { model, outcome } = effect
  const { saved, savedFile } = model
  const { memory, file } = duringSave(effect)
  const isDone = outcome.kind === 'done'
  model.saved = isDone ? memory : saved.or(memory)
  model.savedFile = isDone ? file : savedFile.or(file)
}

function words(line: string): string[] {
  return line.split(' ').filter((word) => word !== '')
}
