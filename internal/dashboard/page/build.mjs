// Builds the page into the folder that is named as the argument. The result depends on the sources and the lock file only.
import { build } from 'esbuild'
import { createHash } from 'node:crypto'
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const out = process.argv[2]
await rm(out, { recursive: true, force: true })
await mkdir(out)

const common = { bundle: true, minify: true, legalComments: 'none', charset: 'utf8', logLevel: 'warning' }
const { metafile } = await build({
  ...common, entryPoints: ['src/app.tsx'], outfile: join(out, 'app.js'), format: 'esm', target: 'es2022',
  jsx: 'automatic', jsxImportSource: 'preact', metafile: true,
})
await build({ ...common, entryPoints: ['src/app.css'], outfile: join(out, 'app.css'), target: ['chrome110', 'firefox110', 'safari16'] })
for (const name of ['index.html', 'icon.svg']) await copyFile(join('src', name), join(out, name))

// The licences of the packages in app.js ask for being handed on with it.
const packages = new Set()
for (const input of Object.keys(metafile.inputs)) {
  const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1]
  if (name) packages.add(name)
}
let licences = ''
for (const name of [...packages].sort()) {
  const folder = join('node_modules', name)
  const file = (await readdir(folder)).find((f) => /^licen[cs]e/i.test(f))
  if (!file) throw new Error(`package ${name} has no licence file`)
  licences += `${name}\n\n${(await readFile(join(folder, file), 'utf8')).trim()}\n\n\n`
}
await writeFile(join(out, 'licenses.txt'), licences.trimEnd() + '\n')

// The tests in a browser check the page with axe-core. They need no Node.js.
await copyFile(join('node_modules', 'axe-core', 'axe.min.js'), join('axe', 'axe.min.js'))

// SHA256SUMS lists what the page was built from and what was built, as `sha256sum` does. A test in Go compares it with the files.
const sources = (await readdir('src')).map((name) => `src/${name}`)
const built = (await readdir(out)).map((name) => `dist/${name}`)
let sums = ''
for (const name of [...sources, ...built, 'axe/axe.min.js', 'build.mjs', 'package.json', 'package-lock.json', 'tsconfig.json'].sort()) {
  const file = name.startsWith('dist/') ? join(out, name.slice('dist/'.length)) : name
  sums += `${createHash('sha256').update(await readFile(file)).digest('hex')}  ${name}\n`
}
await writeFile(join(out, 'SHA256SUMS'), sums)
