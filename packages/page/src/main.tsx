import { render } from 'preact'
import { App } from './app.tsx'
import { openSession } from './state/session.ts'

const root = document.getElementById('page')
if (root !== null) render(<App />, root)
void openSession()
