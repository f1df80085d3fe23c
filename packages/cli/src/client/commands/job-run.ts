import { readFile } from 'node:fs/promises'
import type { CreateJob } from 'dormouse'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { type Isolation, parseMount } from '../create-flags.ts'
import { findSnapshot } from '../find-snapshot.ts'
import type { Language } from '../language.ts'
import { type NetworkFlags, networkOptions } from '../network-flags.ts'
import { omitUndefined } from '../omit-undefined.ts'
import { type PolicyFlags, toPolicy } from '../policy-flags.ts'
import { readAll } from '../read-all.ts'
import { followJob } from './job.ts'

interface JobFlags extends NetworkFlags, PolicyFlags {
  readonly file?: string
  readonly command?: string
  readonly inputs?: string
  readonly input?: readonly string[]
  readonly language?: Language
  readonly variable?: string
  readonly template?: string
  readonly snapshot?: string
  readonly sandbox?: string
  readonly isolation?: Isolation
  readonly sandboxPer?: 'task' | 'worker'
  readonly concurrency?: number
  readonly retries?: number
  readonly backoff?: number
  readonly timeout?: number
  readonly priority?: number
  readonly context?: string
  readonly env?: Record<string, string>
  readonly metadata?: Record<string, string>
  readonly volume?: readonly string[]
  readonly secret?: readonly string[]
  readonly name?: string
  readonly idempotencyKey?: string
  readonly detach?: boolean
}

/** Exit status 1 if a task failed. */
export async function runJob(call: Call, code: string | undefined, flags: JobFlags): Promise<number> {
  const { command, retries, backoff, sandbox, snapshot, template, idempotencyKey } = flags
  const { language, context, variable, sandboxPer, concurrency, priority, env, metadata, name, isolation } =
    flags
  const request = omitUndefined({
    ...{ command, language, context, variable, template, sandboxPer, concurrency, priority },
    ...{ env, metadata, name, isolation, idempotencyKey, ...toPolicy(flags) },
    code: command === undefined ? await codeOf(call, code, flags) : undefined,
    snapshot: snapshot && (await findSnapshot(call, snapshot)).id,
    sandbox: sandbox && (await call.sandbox(sandbox)).id,
    timeoutMs: flags.timeout,
    volumes: flags.volume?.map(parseMount),
    secrets: flags.secret && [...flags.secret],
    network: networkOptions(flags),
    retry:
      retries === undefined && backoff === undefined
        ? undefined
        : omitUndefined({ retries, backoffMs: backoff }),
  })
  const inputs = await inputsOf(call, flags)
  const job = await call.withProgress(
    'Starting the job',
    call.client.jobs.create({ ...request, inputs } as CreateJob, { signal: call.signal }),
  )
  if (flags.detach === true) {
    call.printResult(job, `${job.id}\n`)
    call.note(`Follow it with \`dormouse job wait ${job.id}\`.`)
    return 0
  }
  return followJob(call, job)
}

async function codeOf(call: Call, code: string | undefined, { file }: JobFlags): Promise<string> {
  if (code !== undefined && file !== undefined)
    throw new UsageError('give the code as an argument or a file, not both')
  if (file === '-') return (await readAll(call.io.stdin, call.signal)).toString()
  if (file !== undefined) return readFile(file, 'utf8')
  if (code !== undefined) return code
  throw new UsageError(
    '`job run` needs code',
    "Use `dormouse job run 'item * 2' --input 1`, --file or --command.",
  )
}

async function inputsOf(call: Call, { inputs, input = [], file }: JobFlags): Promise<unknown[]> {
  const given = input.map(jsonOrText)
  if (inputs === undefined) {
    if (given.length === 0)
      throw new UsageError('`job run` needs inputs', 'Use --input VALUE, or --inputs FILE with a JSON array.')
    return given
  }
  if (inputs === '-' && file === '-') throw new UsageError('standard input has either the code or the inputs')
  const text =
    inputs === '-' ? (await readAll(call.io.stdin, call.signal)).toString() : await readFile(inputs, 'utf8')
  return [...given, ...parseInputs(text)]
}

function parseInputs(text: string): unknown[] {
  try {
    const whole: unknown = JSON.parse(text)
    return Array.isArray(whole) ? whole : [whole]
  } catch {
    return text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map(jsonOrText)
  }
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
