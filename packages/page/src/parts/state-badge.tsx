import type { SandboxInfo } from 'dormouse'

export type Look = 'running' | 'waking' | 'frozen' | 'stored' | 'failed'

const WORDS: Record<Look, string> = {
  running: 'running',
  waking: 'moving',
  frozen: 'frozen',
  stored: 'stored',
  failed: 'failed',
}

/** How a sandbox is shown: its state, its tier and its damage as one of five. */
export function lookOf({ state, tier, damage }: Pick<SandboxInfo, 'state' | 'tier' | 'damage'>): Look {
  if (damage !== undefined) return 'failed'
  if (state === 'running') return 'running'
  if (state === 'standby') return tier === 'frozen' ? 'frozen' : 'stored'
  return 'waking'
}

export function StateBadge({ info }: { info: Pick<SandboxInfo, 'state' | 'tier' | 'damage'> }) {
  const look = lookOf(info)
  return (
    <span class={`state ${look}`}>
      <span class="dot" aria-hidden="true" />
      {look === 'waking' ? info.state : WORDS[look]}
    </span>
  )
}
