import java.io.InputStream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import javax.servlet.ServletContext;
import javax.servlet.ServletContextEvent;
import javax.servlet.ServletContextListener;
import javax.servlet.annotation.WebListener;

/**
 * What the deployed application does when it starts: loads every class of the libraries that it carries, and says how many there were.
 * A class whose own libraries are missing is passed over.
 */
@WebListener
public class LoadAll implements ServletContextListener {
    @Override
    public void contextInitialized(ServletContextEvent event) {
        ServletContext context = event.getServletContext();
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        int loaded = 0;
        int missing = 0;
        for (String library : context.getResourcePaths("/WEB-INF/lib/")) {
            try (InputStream bytes = context.getResourceAsStream(library); ZipInputStream zip = new ZipInputStream(bytes)) {
                for (ZipEntry entry = zip.getNextEntry(); entry != null; entry = zip.getNextEntry()) {
                    String name = entry.getName();
                    if (!name.endsWith(".class") || name.startsWith("META-INF") || name.equals("module-info.class")) {
                        continue;
                    }
                    try {
                        // Its methods are asked for, so that it is linked and not only parsed.
                        Class.forName(name.substring(0, name.length() - 6).replace('/', '.'), false, loader).getDeclaredMethods();
                        loaded++;
                    } catch (Throwable missed) {
                        missing++;
                    }
                }
            } catch (java.io.IOException failed) {
                context.log("LoadAll: " + failed);
            }
        }
        context.log("LoadAll: " + loaded + " classes, " + missing + " missing");
    }
}
