"""Pages for a browser: one file each, which loads nothing, for light and dark screens.

Entry: `page.render`; `charts` draws SVG.
Always: every value is escaped, and a page asks no server for anything.
Tests: tests/inspecting, tests/benching; tests/browser.py opens pages in Chromium.
"""
