import type { SandboxInfo } from 'dormouse'
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'

interface NeedsAwakeProps {
  readonly info: SandboxInfo
  readonly what: string
  readonly children: ComponentChildren
}

/**
 * Something that is only known inside the sandbox: reading it wakes a sleeping one, so it asks first. When the sandbox
 * falls asleep it asks again, so that an open page does not keep it awake.
 */
export function NeedsAwake({ info, what, children }: NeedsAwakeProps) {
  const [isWanted, setIsWanted] = useState(info.state === 'running')
  useEffect(() => {
    if (info.state === 'standby') setIsWanted(false)
    if (info.state === 'running') setIsWanted(true)
  }, [info.state])
  if (isWanted) return <>{children}</>
  return (
    <section class="empty">
      <p>{what} are only known in the sandbox, which sleeps.</p>
      <button type="button" class="main" onClick={() => setIsWanted(true)}>
        Wake it and look
      </button>
    </section>
  )
}
