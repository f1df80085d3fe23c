import { readFile } from 'node:fs/promises'
import type { CreateSchedule, Firing, Schedule } from 'dormouse'
import { formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import type { Language } from '../language.ts'
import { omitUndefined } from '../omit-undefined.ts'

interface TimeFlags {
  readonly timezone?: string
  readonly missed?: 'skip' | 'once'
}

interface ActionFlags {
  readonly sandbox?: string
  readonly run?: string
  readonly language?: Language
  readonly job?: string
  readonly port?: number
  readonly service?: string
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path?: string
  readonly body?: string
}

export async function createSchedule(
  call: Call,
  name: string,
  cron: string,
  { timezone, missed, ...flags }: TimeFlags & ActionFlags,
): Promise<void> {
  const action = await actionOf(flags)
  const schedule = await call.client.schedules.create(
    { name, cron, action, ...omitUndefined({ timezone, missed }) },
    { signal: call.signal },
  )
  call.printResult(schedule, `${schedule.name}\n`)
  if (schedule.nextAt !== undefined) call.note(`Fires next at ${schedule.nextAt}.`)
}

async function actionOf(flags: ActionFlags): Promise<CreateSchedule['action']> {
  const { sandbox, run, language, job, port, service, method, path, body } = flags
  if ([run, job, port, service].filter((given) => given !== undefined).length !== 1)
    throw new UsageError('say what to do with one of --run, --job, --port and --service')
  if (job !== undefined) return { type: 'job', job: JSON.parse(await readFile(job, 'utf8')) }
  if (service !== undefined) return { type: 'service', service, ...omitUndefined({ method, path, body }) }
  if (sandbox === undefined) throw new UsageError('--run and --port need --sandbox')
  if (run !== undefined) return { type: 'run', sandbox, code: run, ...omitUndefined({ language }) }
  return { type: 'request', sandbox, port: port ?? 0, ...omitUndefined({ method, path, body }) }
}

export async function listSchedules(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const schedules = await call.client.schedules.list({ signal: call.signal }).all()
  if (quiet === true) return call.printNames(schedules)
  const rows = schedules.map((schedule) => [
    schedule.name,
    schedule.cron,
    schedule.timezone,
    whenNext(schedule),
    schedule.last === undefined ? '-' : shown(schedule.last),
  ])
  const header = ['NAME', 'CRON', 'TIME ZONE', 'NEXT', 'LAST']
  call.printResult({ schedules }, rows.length === 0 ? '' : formatTable([header, ...rows]))
  if (rows.length === 0) call.note('There are no schedules. Create one with `dormouse schedule create`.')
}

export async function showSchedule(call: Call, name: string): Promise<void> {
  const schedule = await call.client.schedules.get(name, { signal: call.signal })
  const firings = await call.client.schedules.firings(name, { signal: call.signal })
  const fields = formatFields([
    ['name', schedule.name],
    ['cron', schedule.cron],
    ['time zone', schedule.timezone],
    ['missed', schedule.missed],
    ['does', JSON.stringify(schedule.action)],
    ['next', schedule.nextAt ?? 'off'],
    ['created', schedule.createdAt],
  ])
  const rows = firings.map((firing) => [firing.at, shown(firing)])
  call.printResult(
    { ...schedule, firings },
    rows.length === 0 ? fields : `${fields}\n${formatTable([['FIRED FOR', 'OUTCOME'], ...rows])}`,
  )
}

export async function updateSchedule(
  call: Call,
  name: string,
  { cron, timezone, missed, on, off }: TimeFlags & { cron?: string; on?: boolean; off?: boolean },
): Promise<void> {
  if (on === true && off === true) throw new UsageError('--on and --off exclude each other')
  const enabled = on === true ? true : off === true ? false : undefined
  const change = omitUndefined({ cron, timezone, missed, enabled })
  if (Object.keys(change).length === 0) throw new UsageError('there is nothing to change')
  const schedule = await call.client.schedules.update(name, change, { signal: call.signal })
  call.printResult(schedule, `${schedule.name} ${whenNext(schedule)}\n`)
}

export async function fireSchedule(call: Call, name: string): Promise<number> {
  const firing = await call.withProgress('Firing', call.client.schedules.fire(name, { signal: call.signal }))
  call.printResult(firing, `${shown(firing)}\n`)
  return firing.state === 'done' ? 0 : 1
}

export async function removeSchedules(call: Call, names: readonly string[]): Promise<void> {
  for (const name of names) await call.client.schedules.delete(name, { signal: call.signal })
  call.printResult({ deleted: names }, names.map((name) => `${name}\n`).join(''))
}

function whenNext({ nextAt, enabled }: Schedule): string {
  if (!enabled) return 'off'
  return nextAt === undefined ? 'never' : `in ${formatDistance(Date.now(), Date.parse(nextAt))}`
}

function shown({ state, jobId, runId, status, error }: Firing): string {
  return [state, error ?? jobId ?? runId ?? (status === undefined ? undefined : String(status))]
    .filter((part) => part !== undefined)
    .join(' ')
}
