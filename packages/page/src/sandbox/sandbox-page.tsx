import type { SandboxInfo } from 'dormouse'
import { Sandbox } from 'dormouse'
import type { ComponentType } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import { client } from '../client.ts'
import { FamilyPart } from '../family/family-part.tsx'
import { FilesPart } from '../files/files-part.tsx'
import { Notebook } from '../notebook/notebook.tsx'
import { useCurrentShown } from '../parts/use-current-shown.ts'
import { PortsPart } from '../ports/ports-part.tsx'
import { correctAddress, Link } from '../router.tsx'
import { SettingsPart } from '../settings/settings-part.tsx'
import { isLoaded, sandboxOf } from '../state/fleet.ts'
import { TerminalPart } from '../terminal/terminal-part.tsx'
import { TimelinePart } from '../timeline/timeline-part.tsx'
import { VariablesPart } from '../variables/variables-part.tsx'
import { ProcessesPart } from './processes-part.tsx'
import { SandboxHead } from './sandbox-head.tsx'

export interface PartProps {
  readonly sandbox: Sandbox
  readonly info: SandboxInfo
}

const PARTS: Record<string, { readonly name: string; readonly Part: ComponentType<PartProps> }> = {
  notebook: { name: 'Notebook', Part: Notebook },
  variables: { name: 'Variables', Part: VariablesPart },
  terminal: { name: 'Terminal', Part: TerminalPart },
  files: { name: 'Files', Part: FilesPart },
  processes: { name: 'Processes', Part: ProcessesPart },
  ports: { name: 'Ports', Part: PortsPart },
  timeline: { name: 'Timeline', Part: TimelinePart },
  family: { name: 'Family', Part: FamilyPart },
  settings: { name: 'Settings', Part: SettingsPart },
}

/** One sandbox: a head that says how it is, and one of its parts. */
export function SandboxPage({ id, part }: { id: string; part: string }) {
  const info = sandboxOf(id)
  const found = info?.id
  const tabs = useCurrentShown(`${found} ${part}`)
  // One object for the life of the page: parts keep it.
  const sandbox = useMemo(() => (info === undefined ? undefined : new Sandbox(client, info)), [found])
  // A name may change while the page is open; an id does not.
  useEffect(() => {
    if (found !== undefined && found !== id) correctAddress(`/sandboxes/${found}/${part}`)
  }, [found, id, part])
  if (info === undefined || sandbox === undefined) {
    if (!isLoaded.value) return <p class="loading">Reading sandboxes…</p>
    return (
      <section class="gone">
        <h1>There is no sandbox {id}</h1>
        <p>
          It was deleted, or belongs to another key. <Link to="/">See all sandboxes</Link>
        </p>
      </section>
    )
  }
  const { Part } = PARTS[part] ?? (PARTS['notebook'] as { Part: ComponentType<PartProps> })
  return (
    <div class={`sandbox ${info.state === 'running' ? 'awake' : 'asleep'}`}>
      <SandboxHead info={info} />
      <nav ref={tabs} class="tabs" aria-label="Parts of the sandbox">
        {Object.entries(PARTS).map(([key, { name }]) => (
          <Link key={key} to={`/sandboxes/${id}/${key}`} aria-current={key === part ? 'page' : undefined}>
            {name}
          </Link>
        ))}
      </nav>
      <Part sandbox={sandbox} info={info} />
    </div>
  )
}
