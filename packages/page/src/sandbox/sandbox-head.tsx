import type { SandboxInfo } from 'dormouse'
import { useEffect } from 'preact/hooks'
import { DayStrip } from '../parts/day-strip.tsx'
import { Glyph } from '../parts/icons.tsx'
import { StateBadge } from '../parts/state-badge.tsx'
import { Link, navigate } from '../router.tsx'
import { activityOf, transitions, wantActivity } from '../state/fleet.ts'
import { mayRun } from '../state/session.ts'
import { bytes, duration } from '../words.ts'
import { fork, remove, sleep, snapshot, titleOf, wake } from './actions.ts'

/** How the sandbox is, and what can be done with it. */
export function SandboxHead({ info }: { info: SandboxInfo }) {
  const activity = activityOf(info.id)
  useEffect(() => wantActivity([info.id]))
  const moved = transitions.value.get(info.id)
  const isAsleep = info.state === 'standby'
  return (
    <header class="sandbox-head">
      <div class="line">
        <Link to="/" class="up" aria-label="All sandboxes">
          <Glyph name="chevron" />
        </Link>
        <h1>{titleOf(info)}</h1>
        <StateBadge info={info} />
        {moved?.event === 'woke' && moved.latencyMs !== undefined && !isAsleep && (
          <span class="woke" role="status">
            woke in {duration(moved.latencyMs)}
          </span>
        )}
        <span class="spacer" />
        {mayRun() && <Actions info={info} isAsleep={isAsleep} />}
      </div>
      <div class="line facts">
        {info.name !== undefined && <code>{info.id}</code>}
        <span>{info.template}</span>
        {info.isolation === 'process' ? null : <span>{info.isolation}</span>}
        <span>{bytes(activity?.memoryBytes)}</span>
        <span class="why">{activity?.why}</span>
        <DayStrip day={activity?.day} />
      </div>
      {info.damage !== undefined && <p class="problem">This sandbox cannot wake: {info.damage.reason}</p>}
    </header>
  )
}

function Actions({ info, isAsleep }: { info: SandboxInfo; isAsleep: boolean }) {
  return (
    <div class="actions" role="toolbar" aria-label="Actions">
      {isAsleep ? (
        <button type="button" class="main" onClick={() => void wake([info])}>
          <Glyph name="sun" /> Wake
        </button>
      ) : (
        <button type="button" onClick={() => void sleep([info])}>
          <Glyph name="moon" /> Sleep
        </button>
      )}
      <button type="button" onClick={() => void fork(info)}>
        <Glyph name="fork" /> Fork
      </button>
      <button type="button" onClick={() => void snapshot(info)}>
        <Glyph name="save" /> Snapshot
      </button>
      <button
        type="button"
        class="danger"
        aria-label="Delete"
        onClick={() => void remove([info]).then((isDone) => isDone && navigate('/'))}
      >
        <Glyph name="trash" />
      </button>
    </div>
  )
}
