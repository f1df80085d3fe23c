import type { NetworkReport } from 'dormouse'
import { client } from '../client.ts'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import type { PartProps } from '../sandbox/sandbox-page.tsx'
import { mayRun } from '../state/session.ts'
import { attempt, tell } from '../state/toasts.ts'
import { ago, bytes } from '../words.ts'
import { CheckpointsForm } from './checkpoints-form.tsx'
import { deniedTarget } from './denied-target.ts'
import { Field, type FormProps, fieldsOf, type Save } from './fields.tsx'
import { VolumesPanel } from './volumes-panel.tsx'

/** Policy, limits, network, secrets and volumes. Changing them does not wake the sandbox. */
export function SettingsPart(props: PartProps) {
  const { sandbox, info } = props
  const save = (change: Parameters<typeof sandbox.update>[0], what: string) =>
    void attempt(what, async () => {
      await sandbox.update(change)
      tell(`${what}: saved`)
    })
  return (
    <section class="settings" aria-label="Settings">
      <PolicyForm info={info} onSave={save} />
      <LimitsForm info={info} onSave={save} />
      <NetworkPanel {...props} onSave={save} />
      <SecretsPanel {...props} onSave={save} />
      <VolumesPanel info={info} />
      <CheckpointsForm {...props} onSave={save} />
    </section>
  )
}

function PolicyForm({ info, onSave }: FormProps) {
  const submit = (event: SubmitEvent) => {
    const field = fieldsOf(event)
    const name = field('name')
    const expiresDays = Number(field('expires'))
    onSave(
      {
        name: name === '' ? null : name,
        idleTimeoutMs: Number(field('idle')) * 1000,
        storeAfterMs: Number(field('store')) * 1000,
        wakeOnTimer: field('timer') === 'on',
        expires: expiresDays > 0 ? { idleMs: expiresDays * 86_400_000, action: 'delete' } : null,
      },
      'Policy',
    )
  }
  const days = info.expires?.idleMs === undefined ? '' : info.expires.idleMs / 86_400_000
  return (
    <form class="panel" onSubmit={(event) => submit(event as unknown as SubmitEvent)}>
      <h2>Policy</h2>
      <fieldset disabled={!mayRun()} class="fields">
        <Field label="Name" name="name" value={info.name ?? ''} />
        <Field
          label="Sleeps after idle seconds (0: never)"
          name="idle"
          value={info.idleTimeoutMs / 1000}
          isNumber
        />
        <Field label="Leaves memory after seconds" name="store" value={info.storeAfterMs / 1000} isNumber />
        <Field label="Deleted after idle days (empty: never)" name="expires" value={days} isNumber />
        <label class="check">
          <input type="checkbox" name="timer" defaultChecked={info.wakeOnTimer} /> Wakes for timers of its
          processes
        </label>
        <button type="submit">Save policy</button>
      </fieldset>
    </form>
  )
}

const MIB = 1024 * 1024

function LimitsForm({ info, onSave }: FormProps) {
  const { memoryBytes, cpus, pids, diskBytes } = info.limits
  const submit = (event: SubmitEvent) => {
    const field = fieldsOf(event)
    onSave(
      {
        limits: {
          memoryBytes: Math.round(Number(field('memory')) * MIB),
          cpus: Number(field('cpus')),
          pids: Number(field('pids')),
          diskBytes: Math.round(Number(field('disk')) * MIB),
        },
      },
      'Limits',
    )
  }
  return (
    <form class="panel" onSubmit={(event) => submit(event as unknown as SubmitEvent)}>
      <h2>Limits</h2>
      <fieldset disabled={!mayRun()} class="fields">
        <Field label="Memory, MiB" name="memory" value={memoryBytes / MIB} isNumber />
        <Field label="CPUs" name="cpus" value={cpus} isNumber />
        <Field label="Processes" name="pids" value={pids} isNumber />
        <Field label="Disk, MiB" name="disk" value={diskBytes / MIB} isNumber />
        <button type="submit">Save limits</button>
      </fieldset>
    </form>
  )
}

function NetworkPanel({ sandbox, info, onSave }: PartProps & { onSave: Save }) {
  const { value } = useRead(
    (signal) => sandbox.network({ signal }),
    sandbox,
    ({ sandboxId, type }) => sandboxId === sandbox.id && type.startsWith('sandbox.'),
  )
  const { mode, allow } = info.network
  const submit = (event: SubmitEvent) => {
    const field = fieldsOf(event)
    const targets = field('allow')
      .split(/[\s,]+/)
      .filter(Boolean)
    const wanted = field('mode') as typeof mode
    onSave({ network: wanted === 'allow' ? { mode: wanted, allow: targets } : { mode: wanted } }, 'Network')
  }
  const permit = (target: string) =>
    onSave(
      { network: { mode: 'allow', allow: [...(mode === 'allow' ? allow : []), target] } },
      `Allow ${target}`,
    )
  return (
    <div class="panel wide">
      <h2>Network</h2>
      <form onSubmit={(event) => submit(event as unknown as SubmitEvent)} key={`${mode} ${allow.join()}`}>
        <fieldset disabled={!mayRun()} class="fields">
          <label>
            May reach
            <select name="mode" defaultValue={mode}>
              <option value="public">the public internet</option>
              <option value="allow">only what is listed</option>
              <option value="none">nothing</option>
            </select>
          </label>
          <label>
            List
            <input name="allow" defaultValue={allow.join(' ')} placeholder="example.com:443 *.pypi.org" />
          </label>
          <button type="submit">Save network</button>
        </fieldset>
      </form>
      <Refused denied={value?.denied ?? []} onAllow={permit} />
      {value !== undefined && (
        <p class="note">
          {value.counters.connections} connections, {bytes(value.counters.bytesOut)} out,{' '}
          {bytes(value.counters.bytesIn)} in
        </p>
      )}
    </div>
  )
}

function Refused({
  denied: refused,
  onAllow,
}: {
  denied: NetworkReport['denied']
  onAllow: (target: string) => void
}) {
  return (
    <Table
      label="Refused connections"
      head={['Refused', 'Why', 'Times', 'Last', 'Actions']}
      empty="Nothing was refused."
      rows={refused.map((denied) => {
        const target = deniedTarget(denied)
        return [
          <code key="target">{target}</code>,
          denied.reason,
          denied.count,
          ago(denied.at),
          mayRun() && (
            <button key="allow" type="button" onClick={() => onAllow(target)}>
              Allow
            </button>
          ),
        ]
      })}
    />
  )
}

function SecretsPanel({ info, onSave }: PartProps & { onSave: Save }) {
  const { value } = useRead((signal) => client.secrets.list({ signal }).all(), info.id)
  const toggle = (name: string) => {
    const has = info.secrets.includes(name)
    onSave(
      { secrets: has ? info.secrets.filter((one) => one !== name) : [...info.secrets, name] },
      `Secret ${name}`,
    )
  }
  return (
    <div class="panel">
      <h2>Secrets</h2>
      <Table
        label="Secrets"
        head={['Secret', 'For', 'Here']}
        empty="There is no secret yet: dormouse secret create NAME"
        rows={(value ?? []).map(({ name, domains }) => [
          name,
          domains.join(', '),
          <input
            key="here"
            type="checkbox"
            aria-label={`${name} in this sandbox`}
            checked={info.secrets.includes(name)}
            disabled={!mayRun()}
            onChange={() => toggle(name)}
          />,
        ])}
      />
    </div>
  )
}
