import type { ComponentType } from 'preact'
import { useEffect } from 'preact/hooks'
import { FleetPage } from './fleet/fleet-page.tsx'
import { ConfirmDialog } from './parts/confirm.tsx'
import { Toasts } from './parts/toasts.tsx'
import { KeysPage } from './places/keys-page.tsx'
import { ServerPage } from './places/server-page.tsx'
import { TemplatesPage } from './places/templates-page.tsx'
import { UsagePage } from './places/usage-page.tsx'
import { VolumesPage } from './places/volumes-page.tsx'
import { route } from './router.tsx'
import { SandboxPage } from './sandbox/sandbox-page.tsx'
import { Shell } from './shell.tsx'
import { SignIn } from './sign-in.tsx'
import { followFleet } from './state/fleet.ts'
import { session } from './state/session.ts'
import './state/theme.ts'

/** Nothing until it is known whether the browser is signed in: that takes one request. */
export function App() {
  if (session.value === undefined) return null
  if (session.value === null) return <SignIn />
  return <SignedIn />
}

function SignedIn() {
  useEffect(() => {
    const stop = new AbortController()
    void followFleet(stop.signal)
    return () => stop.abort()
  }, [])
  return (
    <>
      <Shell>
        <Content />
      </Shell>
      <Toasts />
      <ConfirmDialog />
    </>
  )
}

const PLACES: Record<string, ComponentType> = {
  templates: TemplatesPage,
  volumes: VolumesPage,
  usage: UsagePage,
  keys: KeysPage,
  server: ServerPage,
}

function Content() {
  const [place, id = '', part] = route.value
  if (place === 'sandboxes') return <SandboxPage key={id} id={id} part={part ?? 'notebook'} />
  const Place = PLACES[place ?? '']
  return Place === undefined ? <FleetPage /> : <Place />
}
