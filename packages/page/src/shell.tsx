import type { ComponentChildren } from 'preact'
import { isConnected } from './client.ts'
import { Glyph, type IconName, Mark } from './parts/icons.tsx'
import { useCurrentShown } from './parts/use-current-shown.ts'
import { Link, route } from './router.tsx'
import { session, signOut } from './state/session.ts'
import { nextTheme, theme } from './state/theme.ts'

const PLACES: readonly { to: string; name: string; icon: IconName }[] = [
  { to: '/', name: 'Fleet', icon: 'fleet' },
  { to: '/templates', name: 'Templates', icon: 'templates' },
  { to: '/volumes', name: 'Volumes', icon: 'volumes' },
  { to: '/usage', name: 'Usage', icon: 'usage' },
  { to: '/keys', name: 'Keys', icon: 'keys' },
  { to: '/server', name: 'Server', icon: 'server' },
]

const THEME_ICON = { system: 'screen', light: 'sun', dark: 'moon' } as const

/** The navigation beside what is shown. */
export function Shell({ children }: { children: ComponentChildren }) {
  const here = `/${route.value[0] ?? ''}`
  const side = useCurrentShown(here)
  const isHere = (to: string) => to === here || (to === '/' && here === '/sandboxes')
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Skip to content
      </a>
      <nav ref={side} class="side" aria-label="Pages">
        <Link to="/" class="brand">
          <Mark />
          <span>Dormouse</span>
        </Link>
        {PLACES.map(({ to, name, icon }) => (
          <Link key={to} to={to} class="place" aria-current={isHere(to) ? 'page' : undefined}>
            <Glyph name={icon} />
            <span>{name}</span>
          </Link>
        ))}
        <span class="spacer" />
        <div class="who">
          <span class="key" title={`Key ${session.value?.keyId}: ${session.value?.scopes.join(', ')}`}>
            {session.value?.name}
          </span>
          <button type="button" class="plain" onClick={nextTheme} aria-label={`Theme: ${theme.value}`}>
            <Glyph name={THEME_ICON[theme.value]} />
          </button>
          <button type="button" class="plain" onClick={() => void signOut()} aria-label="Sign out">
            <Glyph name="out" />
          </button>
        </div>
      </nav>
      <main id="content" class="content">
        {!isConnected.value && (
          <div class="offline" role="status">
            The server does not answer. This page reconnects by itself.
          </div>
        )}
        {children}
      </main>
    </div>
  )
}
